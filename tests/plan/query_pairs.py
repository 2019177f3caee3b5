"""Pairs of queries that mean the same, and pairs that do not. Sources are those of `headrace.testing.SCHEMA`."""

from __future__ import annotations

EQUAL = (
    (
        "select a.k from r a left join r b on a.id = b.id join s on b.id = s.k",
        "select a.k from r a left join (select * from r where 1 = 1) b on a.id = b.id join s on b.id = s.k",
    ),
    (
        "select x from (select name, x, row_number() over (order by n) i from r) q where i <= 1",
        "select x from (select x, row_number() over (order by n) i from r) q where i <= 1",
    ),
    (
        "select r.k, s.n from r join s on r.k = s.k where r.x > 5 and s.n = 1",
        "select a.k, b.n from s b, r a where 1 = b.n and b.k = a.k and not a.x <= 5",
    ),
    (
        "select k from r where n > 3",
        "select k from r where 3 < n",
    ),
    (
        "select k from r where n > 3",
        "select k from r where not n <= 3",
    ),
    (
        "select k from r where n > 3",
        "select k from r where not (not (n > 3))",
    ),
    (
        "select k from r where n between 1 and 5",
        "select k from r where n >= 1 and n <= 5",
    ),
    (
        "select k from r where n not between 1 and 5",
        "select k from r where n < 1 or n > 5",
    ),
    (
        "select k from r where n in (1, 2)",
        "select k from r where n = 2 or n = 1",
    ),
    (
        "select k from r where n in (1)",
        "select k from r where n = 1",
    ),
    (
        "select k from r where n not in (1, 2)",
        "select k from r where n <> 2 and n <> 1",
    ),
    (
        "select k from r where n > 1 and n > 3",
        "select k from r where n > 3",
    ),
    (
        "select k from r where n > 1 or n > 3",
        "select k from r where n > 1",
    ),
    (
        "select k from r where n > 1 and (n > 0 or k = 2)",
        "select k from r where n > 1",
    ),
    (
        "select k from r where n > 5 or n <= 5",
        "select k from r where n is not null",
    ),
    (
        "select k from r where n = n",
        "select k from r where n is not null",
    ),
    (
        "select k from r where n > 5 and n < 3",
        "select k from r where 1 = 0",
    ),
    (
        "select k from r where n = 1 and n = 2",
        "select k from r where k > 3 and k < 1",
    ),
    (
        "select k from r where n = 1.0",
        "select k from r where n = 1",
    ),
    (
        "select k from r where x > 1",
        "select k from r where x > 1.0",
    ),
    (
        "select k from r where x > 1e0",
        "select k from r where x > 1",
    ),
    (
        "select k from r where amount = 1.50",
        "select k from r where amount = 1.5",
    ),
    (
        "select k from r where n > 2 + 3",
        "select k from r where n > 5",
    ),
    (
        "select k from r where ok",
        "select k from r where ok = true",
    ),
    (
        "select k from r where not ok",
        "select k from r where ok = false",
    ),
    (
        "select k from r where ok is true",
        "select k from r where ok",
    ),
    (
        "select k from r where (n > 1 and k > 2) or (n > 1 and k < 0)",
        "select k from r where n > 1 and (k > 2 or k < 0)",
    ),
    (
        "select k from r where not (n > 1 and k > 2)",
        "select k from r where n <= 1 or k <= 2",
    ),
    (
        "select k from r where name like 'abc'",
        "select k from r where name = 'abc'",
    ),
    (
        "select k from r where n >= 3 and n <= 3",
        "select k from r where n = 3",
    ),
    (
        "select k from r where n > 1 and n is not null",
        "select k from r where n > 1",
    ),
    (
        "select k from r where at > date '2024-01-01'",
        "select k from r where at > timestamp '2024-01-01 00:00:00'",
    ),
    (
        "select k, n from r",
        "select n as a, k as b from r",
    ),
    (
        "select k, k as k2 from r",
        "select k from r",
    ),
    (
        "select k + n as s from r",
        "select n + k as s from r",
    ),
    (
        "select n * 2 as s from r",
        "select 2 * n as s from r",
    ),
    (
        "select k from (select k, n from r where n > 1) q where k = 2",
        "select k from r where n > 1 and k = 2",
    ),
    (
        "with q as (select k + 1 as j from r) select j from q where j > 3",
        "select k + 1 as j from r where k + 1 > 3",
    ),
    (
        "select a.k from r a join s b on a.k = b.k",
        "select a.k from r a, s b where a.k = b.k",
    ),
    (
        "select a.k from r a join s b on a.k = b.k",
        "select a.k from s b cross join r a where b.k = a.k",
    ),
    (
        "select a.n from r a join s b on a.k = b.k join t c on b.k = c.k",
        "select a.n from t c join r a on a.k = c.k join s b on c.k = b.k",
    ),
    (
        "select a.n from r a join s b on a.k = b.k where b.k = 5",
        "select a.n from r a join s b on a.k = b.k where a.k = 5",
    ),
    (
        "select a.n from r a join s b on a.k = b.k where a.k is not null",
        "select a.n from r a join s b on a.k = b.k",
    ),
    (
        "select a.n from r a, r b where a.k = b.n and b.x > 1",
        "select b.n from r a, r b where b.k = a.n and a.x > 1",
    ),
    (
        "select a.n, b.n as m from r a join r b on a.k = b.k",
        "select b.n, a.n as m from r a join r b on a.k = b.k",
    ),
    (
        "select k, count(*) c, sum(n) s from r group by k",
        "select sum(n) as x, k, count(*) as y from r group by k",
    ),
    (
        "select k, name, count(*) c from r group by k, name",
        "select k, name, count(*) c from r group by name, k",
    ),
    (
        "select k, count(*) c from r group by k having k > 3",
        "select k, count(*) c from r where k > 3 group by k",
    ),
    (
        "select k, count(*) c from r group by k having count(*) > 3",
        "select k, c from (select k, count(*) c from r group by k) q where c > 3",
    ),
    (
        "select k, min(distinct n) m from r group by k",
        "select k, min(n) m from r group by k",
    ),
    (
        "select k, count(1) m from r group by k",
        "select k, count(*) m from r group by k",
    ),
    (
        "select distinct k from r",
        "select k from r group by k",
    ),
    (
        "select distinct k from (select distinct k, n from r) q",
        "select distinct k from r",
    ),
    (
        "select distinct k from (select distinct k from r) q where k > 1",
        "select distinct k from r where k > 1",
    ),
    (
        "select k from r union select k from s",
        "select k from s union select k from r",
    ),
    (
        "select k from r union all select k from s",
        "select k from s union all select k from r",
    ),
    (
        "select k, n from r union all select k, n from s",
        "select n, k from s union all select n, k from r",
    ),
    (
        "select k from (select k, n from r union all select k, n from s) u where n > 1",
        "select k from r where n > 1 union all select k from s where n > 1",
    ),
    (
        "(select k from r union all select k from s) union all select k from t",
        "select k from t union all (select k from s union all select k from r)",
    ),
    (
        "select a.k, b.n from r a left join s b on a.k = b.k",
        "select a.k, b.n from s b right join r a on b.k = a.k",
    ),
    (
        "select a.k, b.n from r a left join s b on a.k = b.k where b.n > 1",
        "select a.k, b.n from r a join s b on a.k = b.k where b.n > 1",
    ),
    (
        "select a.k, b.n from r a left join s b on a.k = b.k where a.x > 1",
        "select a.k, b.n from (select * from r where x > 1) a left join s b on a.k = b.k",
    ),
    (
        "select a.k, b.n from r a left join s b on a.k = b.k and b.n > 1",
        "select a.k, b.n from r a left join (select * from s where n > 1) b on a.k = b.k",
    ),
    (
        "select a.k, b.n from r a full join s b on a.k = b.k",
        "select a.k, b.n from s b full join r a on a.k = b.k",
    ),
    (
        "select a.k, b.n from r a full join s b on a.k = b.k where a.x > 1",
        "select a.k, b.n from r a left join s b on a.k = b.k where a.x > 1",
    ),
    (
        "select k from r where exists (select 1 from s where s.k = r.k)",
        "select k from r where k in (select k from s)",
    ),
    (
        "select k from r where k in (select distinct k from s)",
        "select k from r where k in (select k from s)",
    ),
    (
        "select k from r where not exists (select 1 from s where s.k = r.k and s.n > 1)",
        "select k from r where not exists (select * from (select * from s where n > 1) q where q.k = r.k)",
    ),
    (
        "select k from r where exists (select 1 from s where s.k = r.k) and x > 1",
        "select k from (select * from r where x > 1) r where exists (select 1 from s where r.k = s.k)",
    ),
    (
        "select window(at, '10 minutes').start w, count(*) c from r group by window(at, '10 minutes')",
        "select count(*) c, window.start w from r group by window(at, '600 seconds')",
    ),
    (
        "select k, sum(case when n > 1 then n end) s from r group by k",
        "select k, sum(n) filter (where n > 1) s from r group by k",
    ),
    (
        "select k, c from (select k, count(*) c, sum(n) s from r group by k) q",
        "select k, count(*) c from r group by k",
    ),
    (
        "select coalesce(n, 0) v from r",
        "select case when n is not null then n else 0 end v from r",
    ),
    (
        "select k, n from (select k, n, rank() over (partition by k order by n) rk from r) q where rk <= 2",
        "select n, k from (select n, k, rank() over (partition by k order by n) z from r) q where z < 3",
    ),
    (
        "select k from r where n > 5 and 1 = 1",
        "select k from r where n > 5",
    ),
    (
        "select k from r where n <=> 5",
        "select k from r where n = 5",
    ),
    (
        "select k from r where k = id and id = 5",
        "select k from r where id = 5 and k = 5",
    ),
    (
        "select a.k from r a left join s b on a.k = b.k and a.n = 1",
        "select a.k from r a left join s b on b.k = a.k and 1 = a.n",
    ),
    (
        "select k, n from r order by n desc limit 3",
        "select n, k from (select n, k from r) q order by n desc limit 3",
    ),
    (
        "select count(*) c from (select distinct k from r) q",
        "select count(*) c from (select k from r group by k) q",
    ),
    (
        "select a.k, c.s from r a join (select k, sum(n) s from s group by k) c on a.k = c.k where a.k = 3",
        "select a.k, c.s from (select k, sum(n) s from s where k = 3 group by k) c, r a where a.k = 3 and c.k = a.k",
    ),
)
"""Different spellings of one meaning."""

DIFFERENT = (
    (
        "select x from (select name, x from r order by n limit 1) q",
        "select x from (select x from r order by n limit 1) q",
    ),
    (
        "select a.k, b.n from r a full join s b on a.k = b.k and b.n > 1",
        "select a.k, b.n from r a full join (select * from s where n > 1) b on a.k = b.k",
    ),
    (
        "select k from r where n > 5",
        "select k from r where n >= 5",
    ),
    (
        "select k from r where n > 5",
        "select k from r where n > 6",
    ),
    (
        "select k from r where n > 5",
        "select k from r where k > 5",
    ),
    (
        "select k from r where n > 5",
        "select n from r where n > 5",
    ),
    (
        "select k from r where name = '1'",
        "select k from r where n = 1",
    ),
    (
        "select k from r where n > 5",
        "select k from r",
    ),
    (
        "select k from r where n = 5 or n is null",
        "select k from r where n = 5",
    ),
    (
        "select k from r where not (n = 5)",
        "select k from r where n <> 5 or n is null",
    ),
    (
        "select k from r where n > 5 or n <= 5",
        "select k from r",
    ),
    (
        "select k from r where n = n",
        "select k from r",
    ),
    (
        "select k from r where name like 'a%'",
        "select k from r where name like 'b%'",
    ),
    (
        "select k from r where name like 'a%'",
        "select k from r where not name like 'a%'",
    ),
    (
        "select k from r where n in (1, 2)",
        "select k from r where n in (1, 3)",
    ),
    (
        "select k from r where n in (1, 2)",
        "select k from r where n not in (1, 2)",
    ),
    (
        "select k from r",
        "select k from s",
    ),
    (
        "select k from r",
        "select distinct k from r",
    ),
    (
        "select k from r union all select k from s",
        "select k from r union select k from s",
    ),
    (
        "select k from r union all select k from s",
        "select k from r union all select k from r",
    ),
    (
        "select k from r union all select k from r",
        "select k from r",
    ),
    (
        "select k, n from r union all select k, n from s",
        "select k, n from r union all select n as k, k as n from s",
    ),
    (
        "select a.k, b.n from r a join s b on a.k = b.k",
        "select a.k, b.n from r a left join s b on a.k = b.k",
    ),
    (
        "select a.k, b.n from r a left join s b on a.k = b.k",
        "select a.k, b.n from s b left join r a on a.k = b.k",
    ),
    (
        "select a.k, b.n from r a left join s b on a.k = b.k",
        "select a.k, b.n from r a full join s b on a.k = b.k",
    ),
    (
        "select a.k, b.n from r a left join s b on a.k = b.k where b.n > 1",
        "select a.k, b.n from r a left join s b on a.k = b.k and b.n > 1",
    ),
    (
        "select a.k, b.n from r a left join s b on a.k = b.k where a.x > 1",
        "select a.k, b.n from r a left join s b on a.k = b.k and a.x > 1",
    ),
    (
        "select a.k, b.n from r a left join s b on a.k = b.k where b.n is null",
        "select a.k, b.n from r a left join s b on a.k = b.k",
    ),
    (
        "select a.k from r a join s b on a.k = b.k",
        "select k from r where k in (select k from s)",
    ),
    (
        "select k from r where exists (select 1 from s where s.k = r.k)",
        "select k from r where not exists (select 1 from s where s.k = r.k)",
    ),
    (
        "select k from r where k not in (select k from s)",
        "select k from r where not exists (select 1 from s where s.k = r.k)",
    ),
    (
        "select a.k from r a join s b on a.k = b.k",
        "select a.k from r a join s b on a.k = b.k join s c on a.k = c.k",
    ),
    (
        "select a.n from r a join r b on a.k = b.n",
        "select a.n from r a join r b on b.k = a.n",
    ),
    (
        "select a.n from r a join s b on a.k = b.k",
        "select a.n from r a join s b on a.n = b.n",
    ),
    (
        "select a.n from r a join s b on a.k = b.k",
        "select a.n from r a join s b on a.k = b.k and a.n = b.n",
    ),
    (
        "select a.n from r a join s b on a.k = b.k",
        "select a.n from r a join s b on a.k < b.k",
    ),
    (
        "select k, count(n) c from r group by k",
        "select k, count(*) c from r group by k",
    ),
    (
        "select k, sum(n) c from r group by k",
        "select k, sum(distinct n) c from r group by k",
    ),
    (
        "select k, count(n) c from r group by k",
        "select k, count(distinct n) c from r group by k",
    ),
    (
        "select k, min(n) c from r group by k",
        "select k, max(n) c from r group by k",
    ),
    (
        "select k, sum(n) c from r group by k",
        "select name, sum(n) c from r group by name",
    ),
    (
        "select k, sum(n) c from r group by k",
        "select k, sum(n) c from r group by k, name",
    ),
    (
        "select count(*) c from r",
        "select count(*) c from r group by k",
    ),
    (
        "select k, count(*) c from r group by k having count(*) > 1",
        "select k, count(*) c from r group by k having count(*) > 2",
    ),
    (
        "select k, count(*) c from r group by k having count(*) > 1",
        "select k, count(*) c from r group by k",
    ),
    (
        "select count(*) c from r where n > 1",
        "select count(*) c from r having count(*) > 1",
    ),
    (
        "select window(at, '30 seconds').start w, count(*) c from r group by window(at, '30 seconds')",
        "select window(at, '60 seconds').start w, count(*) c from r group by window(at, '60 seconds')",
    ),
    (
        "select window(at, '60 seconds').start w, count(*) c from r group by window(at, '60 seconds')",
        "select window.start w, count(*) c from r group by window(at, '60 seconds', '30 seconds')",
    ),
    (
        "select window(at, '60 seconds').start w, count(*) c from r group by window(at, '60 seconds')",
        "select window.end w, count(*) c from r group by window(at, '60 seconds')",
    ),
    (
        "select k + n as s from r",
        "select k - n as s from r",
    ),
    (
        "select k - n as s from r",
        "select n - k as s from r",
    ),
    (
        "select n / 2 as s from r",
        "select n div 2 as s from r",
    ),
    (
        "select k + 1 as s from r",
        "select k + 1.0 as s from r",
    ),
    (
        "select upper(name) as s from r",
        "select lower(name) as s from r",
    ),
    (
        "select coalesce(n, 0) as s from r",
        "select n as s from r",
    ),
    (
        "select case when ok then 1 else 2 end s from r",
        "select case when not ok then 2 else 1 end s from r",
    ),
    (
        "select case when n > 1 then 1 end s from r",
        "select case when n > 1 then 1 else 0 end s from r",
    ),
    (
        "select cast(n as string) s from r",
        "select cast(n as int) s from r",
    ),
    (
        "select k, n from r order by n limit 3",
        "select k, n from r order by n limit 4",
    ),
    (
        "select k, n from r order by n limit 3",
        "select k, n from r order by n desc limit 3",
    ),
    (
        "select k, n from r order by n limit 3",
        "select k, n from r order by k limit 3",
    ),
    (
        "select n, k, name from r order by n limit 3",
        "select n, name, k from r order by n limit 3",
    ),
    (
        "select k, n from (select k, n, rank() over (partition by k order by n) rk from r) q where rk <= 2",
        "select k, n from (select k, n, dense_rank() over (partition by k order by n) rk from r) q where rk <= 2",
    ),
    (
        "select k, n from (select k, n, rank() over (partition by k order by n) rk from r) q where rk <= 2",
        "select k, n from (select k, n, rank() over (order by n) rk from r) q where rk <= 2",
    ),
    (
        "select k from r where ok",
        "select k from r where ok is not false",
    ),
    (
        "select k from r where n is null",
        "select k from r where n is not null",
    ),
    (
        "select x from r where x > 0.1",
        "select x from r where x > 0.1000001",
    ),
    (
        "select a.n from r a join s b on a.k = b.k where b.n > 5",
        "select a.n from r a join s b on a.k = b.k where a.n > 5",
    ),
    (
        "select a.k, b.n from r a left join s b on a.k = b.k and a.n = 1",
        "select a.k, b.n from r a left join s b on a.k = b.k and b.n = 1",
    ),
    (
        "select distinct k, n from r",
        "select distinct k from r",
    ),
    (
        "select k, sum(n) s from r where n > 1 group by k",
        "select k, sum(n) s from r group by k having sum(n) > 1",
    ),
)
"""Each pair has different rows for some tables, or the same rows but for a column's value."""
