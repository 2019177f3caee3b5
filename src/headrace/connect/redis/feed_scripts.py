"""What a feed does in Valkey or Redis, as scripts: each is all or nothing, and one round trip.

    F:{p17}:t           time, epoch and meaning of a part; F:{events}:t those of events
    F:{p17}:c           the consumers of a part
    F:{p17}:p:anna      whom a consumer follows: producer -> ahead and since
    F:{p17}:f:anna      what is stored ahead: producer -> a JSON list of time, id, time, id, ..., newest first
    F:{p17}:h:anna      whom a consumer does not see; F:{p17}:s:anna the last entry seen
    F:{e:bob}:e         a producer's events by time, each as `id NUL from NUL to`; `to` is empty while it is there
    F:{e:bob}:b         their bodies by `id NUL from`; F:{e:bob}:o the beginning of each that is there, by `time NUL id`
    F:{events}:n        producers by the time of their newest event, as of whatever time: where a page begins to look
    F:{events}:x        versions that have ended, by when; F:{events}:f those that are new, by when they began
    F:{events}:owner    whose feed it is
    F:r:reads           counters that fade

What is in braces is what a cluster places keys by: all keys of a part are together, and all keys of a producer.
`ONE_SLOT` are the scripts that touch keys of one slot only. The others touch keys of parts, of events or of producers,
and each of their steps those of one slot: on a cluster they would be divided, a page into what its part says and one
call for each node that has producers.

Numbers that people see are texts here, since Lua's JSON writes large ones with fewer digits.
"""

from __future__ import annotations

PREAMBLE = """
local F = KEYS[1]
local said = cjson.decode(ARGV[1])
local NUL = string.char(0)
local function number(value) return string.format('%.0f', value) end
local function own(producer, kind) return F .. ':{e:' .. producer .. '}:' .. kind end
local function clock(part) return F .. ':{' .. part .. '}:t' end
local function less(one, other)  -- by bytes: the server's locale does not matter
  if one == other then return false end
  local last = math.min(#one, #other)
  for at = 1, last do
    local a, b = string.byte(one, at), string.byte(other, at)
    if a ~= b then return a < b end
  end
  return #one < #other
end
local function newer(one, other)  -- one and other are {time, id, producer}
  if one[1] ~= other[1] then return one[1] > other[1] end
  if one[2] ~= other[2] then return less(other[2], one[2]) end
  return less(other[3], one[3])
end
local function cut(member)
  local first = string.find(member, NUL, 1, true)
  local second = string.find(member, NUL, first + 1, true)
  return string.sub(member, 1, first - 1), string.sub(member, first + 1, second - 1), string.sub(member, second + 1)
end
local function is_there(from, to, t) return tonumber(from) <= t and (to == '' or t < tonumber(to)) end
local function move(part)
  local found = redis.call('HMGET', clock(part), 't', 'epoch')
  if found[2] ~= said.epoch then return {'fenced', found[2] or ''} end
  if said.after and found[1] ~= said.after then return {'conflict', part, found[1] or ''} end
  return nil
end
"""

TAKE_OVER = (
    PREAMBLE
    + """
local owner = redis.call('GET', F .. ':{events}:owner')
if owner and owner ~= said.project then return {'owner', owner} end
for _, part in ipairs(said.parts) do
  local epoch = redis.call('HGET', clock(part), 'epoch')
  if epoch and tonumber(epoch) > tonumber(said.epoch) then return {'fenced', epoch} end
end
redis.call('SET', F .. ':{events}:owner', said.project)
local times = {'done'}
for _, part in ipairs(said.parts) do
  if redis.call('HGET', clock(part), 'meaning') ~= said.meaning then redis.call('HDEL', clock(part), 't') end
  redis.call('HSET', clock(part), 'epoch', said.epoch, 'meaning', said.meaning)
  times[#times + 1] = redis.call('HGET', clock(part), 't') or ''
end
return times
"""
)

EVENTS = (
    PREAMBLE
    + """
local refused = move('events')
if refused then return refused end
if not said.after and said.first then
  for _, producer in ipairs(redis.call('ZRANGE', F .. ':{events}:n', 0, -1)) do
    redis.call('DEL', own(producer, 'e'), own(producer, 'b'), own(producer, 'o'))
  end
  redis.call('DEL', F .. ':{events}:n', F .. ':{events}:x', F .. ':{events}:f')
end
-- What goes at a time goes before what comes at it.
for _, row in ipairs(said.rows) do
  local producer, ts, id, body, t, comes = row[1], row[2], row[3], row[4], row[5], row[6]
  local events, bodies, open = own(producer, 'e'), own(producer, 'b'), own(producer, 'o')
  local there = redis.call('HGET', open, ts .. NUL .. id)
  if comes and not there then
    redis.call('ZADD', F .. ':{events}:n', 'GT', ts, producer)
    redis.call('ZADD', events, ts, id .. NUL .. t .. NUL)
    redis.call('HSET', bodies, id .. NUL .. t, body)
    redis.call('HSET', open, ts .. NUL .. id, t)
    if said.after then redis.call('ZADD', F .. ':{events}:f', t, cjson.encode({producer, id, ts, t})) end
  elseif there and not comes and tonumber(there) < tonumber(t) then  -- else it was done before
    redis.call('ZREM', events, id .. NUL .. there .. NUL)
    redis.call('ZADD', events, ts, id .. NUL .. there .. NUL .. t)
    redis.call('HDEL', open, ts .. NUL .. id)
    redis.call('ZADD', F .. ':{events}:x', t, cjson.encode({producer, id, there, t}))
  end
end
if said.last then redis.call('HSET', clock('events'), 't', said.upto) end
if said.last and not said.after then redis.call('HSET', clock('events'), 'started', said.upto) end
return {'done'}
"""
)

PARTS = (
    PREAMBLE
    + """
local refused = move(said.part)
if refused then return refused end
local P = F .. ':{' .. said.part .. '}:'
local lists = {}
for _, row in ipairs(said.stored) do
  local consumer, producer, ts, id, weight = row[1], row[2], row[3], row[4], row[5]
  local key = consumer .. NUL .. producer
  local list = lists[key]
  if not list then
    list = {consumer = consumer, producer = producer, entries = {}, count = {}}
    local held = said.after and redis.call('HGET', P .. 'f:' .. consumer, producer)
    local packed = held and cjson.decode(held) or {}
    for at = 1, #packed, 2 do
      list.entries[#list.entries + 1] = {tonumber(packed[at]), packed[at + 1], ''}
      list.count[packed[at] .. NUL .. packed[at + 1]] = 1
    end
    lists[key] = list
  end
  local name = ts .. NUL .. id
  if list.count[name] == nil then list.entries[#list.entries + 1] = {tonumber(ts), id, ''} end
  list.count[name] = (list.count[name] or 0) + weight
end
for _, list in pairs(lists) do
  for _, count in pairs(list.count) do
    if count ~= 0 and count ~= 1 then return {'changed'} end
  end
end
if not said.after then
  for _, consumer in ipairs(redis.call('SMEMBERS', P .. 'c')) do
    redis.call('DEL', P .. 'p:' .. consumer, P .. 'f:' .. consumer)
  end
  redis.call('DEL', P .. 'c')
end
for _, list in pairs(lists) do
  table.sort(list.entries, newer)
  local packed = {}
  for _, entry in ipairs(list.entries) do
    if list.count[number(entry[1]) .. NUL .. entry[2]] == 1 then
      packed[#packed + 1] = number(entry[1])
      packed[#packed + 1] = entry[2]
    end
  end
  redis.call('SADD', P .. 'c', list.consumer)
  if #packed > 0 then redis.call('HSET', P .. 'f:' .. list.consumer, list.producer, cjson.encode(packed))
  else redis.call('HDEL', P .. 'f:' .. list.consumer, list.producer) end
end
for _, row in ipairs(said.pairs) do
  if row[3] == cjson.null then redis.call('HDEL', P .. 'p:' .. row[1], row[2])
  else
    redis.call('SADD', P .. 'c', row[1])
    redis.call('HSET', P .. 'p:' .. row[1], row[2], (row[3] and '1:' or '0:') .. row[4])
  end
end
redis.call('HSET', clock(said.part), 't', said.upto)
return {'done'}
"""
)

FLIP = (
    PREAMBLE
    + """
local found = redis.call('HMGET', clock(said.part), 't', 'epoch')
if found[2] ~= said.epoch or not found[1] then return {'done'} end
for _, row in ipairs(said.flips) do
  local pairs_key = F .. ':{' .. said.part .. '}:p:' .. row[1]
  if tonumber(row[4]) > tonumber(found[1]) and redis.call('HEXISTS', pairs_key, row[2]) == 1 then
    redis.call('HSET', pairs_key, row[2], (row[3] and '1:' or '0:') .. row[4])
  end
end
return {'done'}
"""
)

_FIND_PAIRS = """
local P = F .. ':{' .. said.part .. '}:'
local t = redis.call('HGET', clock(said.part), 't')
if not t then return {} end
local at = tonumber(t)
local hidden = {}
for _, row in ipairs(redis.call('SMEMBERS', P .. 'h:' .. said.consumer)) do
  hidden[string.sub(row, 1, string.find(row, NUL, 1, true) - 1)] = true
end
local function is_ahead(state) return string.sub(state, 1, 1) == '1' and tonumber(string.sub(state, 3)) <= at end
local function visit_followed(visit)
  local followed = redis.call('HGETALL', P .. 'p:' .. said.consumer)
  for n = 1, #followed, 2 do
    if not hidden[followed[n]] then visit(followed[n], followed[n + 1]) end
  end
end
local function find_version(producer, ts, id)
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', own(producer, 'e'), ts, ts)) do
    local own, from, to = cut(member)
    if own == id and is_there(from, to, at) then return from end
  end
  return nil
end
local function pull(producer, top, most, visit)  -- newest first, until enough were taken
  local offset, taken = 0, 0
  while taken < most do
    local some = redis.call('ZREVRANGEBYSCORE', own(producer, 'e'), top, '-inf', 'WITHSCORES', 'LIMIT', offset,
      most + 8)
    if #some == 0 then return end
    for n = 1, #some, 2 do
      local id, from, to = cut(some[n])
      if taken < most and is_there(from, to, at) and visit(tonumber(some[n + 1]), id, from) then taken = taken + 1 end
    end
    offset = offset + #some / 2
  end
end
"""

PAGE = (
    PREAMBLE
    + _FIND_PAIRS
    + """
local found = {}
local ceiling = said.ceiling and {tonumber(said.ceiling[1]), said.ceiling[2], said.ceiling[3]}
local recent = said.k and (tonumber(said.as_of or t) - said.within)
local function add(producer, ts, id, from, nth, stored)
  found[#found + 1] = {ts, id, producer, from = from, nth = nth, stored = stored}
end
local function take_stored(producer)
  local packed = cjson.decode(redis.call('HGET', P .. 'f:' .. said.consumer, producer) or '[]')
  for m = 1, math.min(#packed, 2 * said.shown), 2 do
    add(producer, tonumber(packed[m]), packed[m + 1], nil, (m + 1) / 2, true)
  end
end
local function take_pulled(producer)
  local last, nth = said.last and said.last[producer], 0
  local top = '+inf'
  if ceiling then top = said.ceiling[1] end
  if last and tonumber(last[1]) < ceiling[1] then top = last[1] end
  pull(producer, top, said.shown, function(ts, id, from)
    local entry = {ts, id, producer}
    if ceiling and newer(entry, ceiling) then return false end
    if last and not newer({tonumber(last[1]), last[2], producer}, entry) then return false end
    nth = nth + 1
    add(producer, ts, id, from, nth, false)
    return true
  end)
end
local function find_floor()  -- the time below which nothing can be on the page; nil if there are too few to say
  table.sort(found, newer)
  if #found < said.enough then return nil end
  local floor, few, heads = found[said.enough][1], 0, 0
  if not said.k then return floor end
  for _, entry in ipairs(found) do
    if entry.nth <= said.k then few = few + 1 end
    if few == said.enough then
      floor = math.min(floor, entry[1])
      few = few + 1
    end
    if entry.nth == 1 and entry[1] >= recent then heads = heads + 1 end
  end
  if few < said.enough then return nil end
  return heads >= said.enough and floor or math.min(floor, recent)
end
local function walk()  -- the newest of all producers, until nobody else can be on the page; false if that takes long
  local steps, chunk = 0, 100
  while steps < said.steps do
    local some = redis.call('ZREVRANGE', F .. ':{events}:n', steps, steps + chunk - 1, 'WITHSCORES')
    for n = 1, #some, 2 do
      local state = not hidden[some[n]] and redis.call('HGET', P .. 'p:' .. said.consumer, some[n])
      if state and (ceiling or not is_ahead(state)) then take_pulled(some[n]) end
    end
    steps = steps + #some / 2
    if #some < 2 * chunk then return true end
    local floor = find_floor()
    if floor and tonumber(some[#some]) < floor then return true end
    chunk = chunk * 2
  end
  return false
end
local is_walked = false
if redis.call('HLEN', P .. 'p:' .. said.consumer) > said.most_few then
  if not ceiling then
    for _, producer in ipairs(redis.call('HKEYS', P .. 'f:' .. said.consumer)) do
      local state = not hidden[producer] and redis.call('HGET', P .. 'p:' .. said.consumer, producer)
      if state and is_ahead(state) then take_stored(producer) end
    end
  end
  is_walked = walk()
  if not is_walked then found = {} end
end
if not is_walked then
  visit_followed(function(producer, state)
    if is_ahead(state) and not ceiling then take_stored(producer) else take_pulled(producer) end
  end)
end
table.sort(found, newer)
local answer, few = {t}, 0
for place, entry in ipairs(found) do
  local is_few = said.k and entry.nth <= said.k
  if is_few then few = few + 1 end
  if place <= said.enough or (is_few and few <= said.enough) or (said.k and entry.nth == 1 and entry[1] >= recent) then
    local from = entry.from or find_version(entry[3], number(entry[1]), entry[2])
    if from then
      local body = redis.call('HGET', own(entry[3], 'b'), entry[2] .. NUL .. from)
      answer[#answer + 1] = {entry[3], number(entry[1]), entry[2], body, entry.stored and 1 or 0}
    end
  end
end
return answer
"""
)

ENDS = (
    PREAMBLE
    + _FIND_PAIRS
    + """
if t ~= said.t then return {} end
local floor = said.floor and {tonumber(said.floor[1]), said.floor[2], ''}
local answer = {t}
local function find_end(producer)  -- the oldest event, if there are enough and it is after the floor
  local first, count = nil, 0
  local some = redis.call('ZRANGE', own(producer, 'e'), 0, -1, 'WITHSCORES')
  for n = 1, #some, 2 do
    local id, from, to = cut(some[n])
    if is_there(from, to, at) then
      local entry = {tonumber(some[n + 1]), id, ''}
      if not first or newer(first, entry) then first = entry end
      if floor and not newer(entry, floor) then return nil end
      count = count + 1
    end
  end
  return count >= said.keep and first or nil
end
visit_followed(function(producer)
  local first = find_end(producer)
  if first then answer[#answer + 1] = {producer, number(first[1]), first[2]} end
end)
return answer
"""
)

UNREAD = (
    PREAMBLE
    + _FIND_PAIRS
    + """
local seen = redis.call('HMGET', P .. 's:' .. said.consumer, 'ts', 'id')
local last, count = {tonumber(seen[1] or '-inf'), seen[2] or '', ''}, 0
visit_followed(function(producer)
  if count < said.most then
    pull(producer, '+inf', said.most, function(ts, id)
      if newer({ts, id, ''}, last) then count = count + 1 end
      return true
    end)
  end
end)
return {math.min(count, said.most)}
"""
)

CHANGES = (
    PREAMBLE
    + """
local started = tonumber(redis.call('HGET', clock('events'), 'started') or '0')
local function find_end(producer, ts, id, from)  -- of a version; nil if it is not there
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', own(producer, 'e'), ts, ts)) do
    local named, begun, to = cut(member)
    if named == id and begun == from then return to end
  end
  return nil
end
local function is_read(producer, id, at)  -- whether any version of an event is there
  for _, member in ipairs(redis.call('ZRANGE', own(producer, 'e'), 0, -1)) do
    local named, from, to = cut(member)
    if named == id and is_there(from, to, at) then return true end
  end
  return false
end
local answer = {}
for n, ask in ipairs(said.asked) do
  local consumer, P, after = ask[1], F .. ':{' .. ask[2] .. '}:', tonumber(ask[3])
  local t = redis.call('HGET', clock(ask[2]), 't')
  local rows = {}
  if t and (after < tonumber(t) - said.kept or after < started) then
    rows = {t, 0}
  elseif t then
    rows = {t, 1}
    local at, hidden = tonumber(t), {}
    for _, row in ipairs(redis.call('SMEMBERS', P .. 'h:' .. consumer)) do
      hidden[string.sub(row, 1, string.find(row, NUL, 1, true) - 1)] = true
    end
    local function is_told(when, ts, id, producer)
      if when == after and (not ask[4] or not newer({ts, id, producer}, {tonumber(ask[4]), ask[5], ask[6]})) then
        return false
      end
      return not hidden[producer] and redis.call('HEXISTS', P .. 'p:' .. consumer, producer) == 1
    end
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', F .. ':{events}:f', number(after), t)) do
      local producer, id, ts, from = unpack(cjson.decode(member))
      local to = find_end(producer, ts, id, from)
      if to and is_there(from, to, at) and is_told(tonumber(from), tonumber(ts), id, producer) then
        rows[#rows + 1] = {from, 0, producer, ts, id, redis.call('HGET', own(producer, 'b'), id .. NUL .. from)}
      end
    end
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', F .. ':{events}:x', number(after), t)) do
      local producer, id, from, to = unpack(cjson.decode(member))
      local ts = redis.call('ZSCORE', own(producer, 'e'), id .. NUL .. from .. NUL .. to)
      if ts and is_told(tonumber(to), tonumber(ts), id, producer) and not is_read(producer, id, at) then
        rows[#rows + 1] = {to, 1, producer, number(tonumber(ts)), id, ''}
      end
    end
  end
  answer[n] = rows
end
return answer
"""
)

NEWEST = (
    PREAMBLE
    + """
local t = redis.call('HGET', clock('events'), 't')
local answer = {}
for _, producer in ipairs(t and said.producers or {}) do
  local taken = 0
  local some = redis.call('ZREVRANGE', own(producer, 'e'), 0, -1, 'WITHSCORES')
  for n = 1, #some, 2 do
    local id, from, to = cut(some[n])
    if taken < said.limit and is_there(from, to, tonumber(t)) then
      taken = taken + 1
      answer[#answer + 1] = {producer, number(tonumber(some[n + 1])), id,
        redis.call('HGET', own(producer, 'b'), id .. NUL .. from), 0}
    end
  end
end
return answer
"""
)

MARK_SEEN = (
    PREAMBLE
    + """
local key = F .. ':{' .. said.part .. '}:s:' .. said.consumer
local seen = redis.call('HMGET', key, 'ts', 'id')
if not seen[1] or newer({tonumber(said.ts), said.id, ''}, {tonumber(seen[1]), seen[2], ''}) then
  redis.call('HSET', key, 'ts', said.ts, 'id', said.id)
end
return 1
"""
)

ADD_COUNTS = (
    PREAMBLE
    + """
local key = F .. ':r:' .. said.kind
for id, more in pairs(said.counts) do
  local held = redis.call('HGET', key, id)
  local count, at = more, said.at
  if held then
    local cut_at = string.find(held, ':', 1, true)
    local before, since = tonumber(string.sub(held, 1, cut_at - 1)), tonumber(string.sub(held, cut_at + 1))
    count = before * math.pow(0.5, math.max(said.at - since, 0) / said.half_life) + more
    at = math.max(at, since)
  end
  redis.call('HSET', key, id, string.format('%.17g:%.17g', count, at))
end
return 1
"""
)

PURGE = (
    PREAMBLE
    + """
local horizon
for _, part in ipairs(said.parts) do
  local t = redis.call('HGET', clock(part), 't')
  if not t then return 0 end
  horizon = math.min(horizon or tonumber(t), tonumber(t))
end
redis.call('ZREMRANGEBYSCORE', F .. ':{events}:f', '-inf', '(' .. number(horizon - said.kept))
local ended = redis.call('ZRANGEBYSCORE', F .. ':{events}:x', '-inf', '(' .. number(horizon - said.kept))
for _, member in ipairs(ended) do
  local row = cjson.decode(member)
  redis.call('ZREM', own(row[1], 'e'), row[2] .. NUL .. row[3] .. NUL .. row[4])
  redis.call('HDEL', own(row[1], 'b'), row[2] .. NUL .. row[3])
  local rest = redis.call('ZREVRANGE', own(row[1], 'e'), 0, 0, 'WITHSCORES')
  if rest[1] then redis.call('ZADD', F .. ':{events}:n', rest[2], row[1])
  else redis.call('ZREM', F .. ':{events}:n', row[1]) end
  redis.call('ZREM', F .. ':{events}:x', member)
end
return #ended
"""
)

SIZES = (
    PREAMBLE
    + """
local pairs_, ahead, entries, events = 0, 0, 0, 0
for _, part in ipairs(said.parts) do
  local P = F .. ':{' .. part .. '}:'
  for _, consumer in ipairs(redis.call('SMEMBERS', P .. 'c')) do
    for _, value in ipairs(redis.call('HVALS', P .. 'p:' .. consumer)) do
      pairs_ = pairs_ + 1
      if string.sub(value, 1, 1) == '1' then ahead = ahead + 1 end
    end
    for _, value in ipairs(redis.call('HVALS', P .. 'f:' .. consumer)) do
      entries = entries + #cjson.decode(value) / 2
    end
  end
end
for _, producer in ipairs(redis.call('ZRANGE', F .. ':{events}:n', 0, -1)) do
  events = events + redis.call('HLEN', own(producer, 'o'))
end
return {pairs_, ahead, entries, events}
"""
)

ONE_SLOT = (PARTS, FLIP, MARK_SEEN, ADD_COUNTS)
