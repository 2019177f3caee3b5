"""What a feed does in Valkey or Redis, as scripts: each is all or nothing, and one round trip.

    F:{p17}:t           time, epoch and meaning of a part; F:{events}:t those of events
    F:{p17}:c           the consumers of a part
    F:{p17}:p:anna      whom a consumer follows: producer -> ahead and since
    F:{p17}:a:anna      what is stored ahead by time, of all producers, each as `time NUL id NUL producer`
    F:{p17}:h:anna      whom a consumer does not see; F:{p17}:s:anna the last entry seen
    F:{e:bob}:e         a producer's events by time, each as `id NUL time NUL from NUL to`; `to` is empty while it is
                        there. The time is in it since ids may be empty, and what is filled begins at one time
    F:{e:bob}:b         their bodies by `id NUL time NUL from`
    F:{e:bob}:o         the beginning of each that is there, by `time NUL id`
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
  local id, ts, from, to = string.match(member, '^(.-)%z(.-)%z(.-)%z(.*)$')
  return id, from, to, ts
end
local function name_body(ts, id, from) return id .. NUL .. ts .. NUL .. from end
local function name_version(ts, id, from, to) return name_body(ts, id, from) .. NUL .. to end
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
    redis.call('ZADD', events, ts, name_version(ts, id, t, ''))
    redis.call('HSET', bodies, name_body(ts, id, t), body)
    redis.call('HSET', open, ts .. NUL .. id, t)
    if said.after then redis.call('ZADD', F .. ':{events}:f', t, cjson.encode({producer, id, ts, t})) end
  elseif there and not comes and tonumber(there) < tonumber(t) then  -- else it was done before
    redis.call('ZREM', events, name_version(ts, id, there, ''))
    redis.call('ZADD', events, ts, name_version(ts, id, there, t))
    redis.call('HDEL', open, ts .. NUL .. id)
    redis.call('ZADD', F .. ':{events}:x', t, cjson.encode({producer, id, ts, there, t}))
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
if not said.after then
  for _, consumer in ipairs(redis.call('SMEMBERS', P .. 'c')) do  -- `f:` is how an earlier layout kept what is ahead
    redis.call('DEL', P .. 'p:' .. consumer, P .. 'a:' .. consumer, P .. 'f:' .. consumer)
  end
  redis.call('DEL', P .. 'c')
end
local MOST = 1000  -- of what one call is given
local function change_stored(consumer, rows, comes)  -- whether all of it was as it should be
  local key, count, args = P .. 'a:' .. consumer, 0, {}
  for at = 1, #rows, 3 do
    if comes then args[#args + 1] = rows[at] end
    args[#args + 1] = rows[at] .. NUL .. rows[at + 1] .. NUL .. rows[at + 2]
    if #args >= MOST or at + 3 > #rows then
      count = count + redis.call(comes and 'ZADD' or 'ZREM', key, unpack(args))
      args = {}
    end
  end
  return count == #rows / 3
end
for consumer, rows in pairs(said.gone) do
  -- A part that somebody else has changed is filled anew: that half of this is done does not matter.
  if not change_stored(consumer, rows, false) then return {'changed'} end
end
for consumer, rows in pairs(said.come) do
  redis.call('SADD', P .. 'c', consumer)
  if not change_stored(consumer, rows, true) then return {'changed'} end
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
local N = F .. ':{events}:n'
local function visit_newest(is_wanted, visit)  -- followed producers that have events, by the time of their newest
  local asked = {}
  local function visit_asked()
    if #asked == 0 then return end
    for n, newest in ipairs(redis.call('ZMSCORE', N, unpack(asked))) do
      if newest then visit(asked[n], tonumber(newest)) end
    end
    asked = {}
  end
  visit_followed(function(producer, state)
    if is_wanted(state) then asked[#asked + 1] = producer end
    if #asked == 1000 then visit_asked() end
  end)
  visit_asked()
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
local function count_nothing() return {all = 0, few = 0, fresh = 0} end
local function count(counts, nth, ts)  -- entries that come newest first
  counts.all = counts.all + 1
  if said.k and nth <= said.k then counts.few = counts.few + 1 end
  if said.k and nth == 1 and ts >= recent then counts.fresh = counts.fresh + 1 end
end
local function is_enough(counts, ts)  -- whether nothing can be on the page that comes later
  if counts.all < said.enough then return false end
  return not said.k or (counts.few >= said.enough and (counts.fresh >= said.enough or ts < recent))
end
local floor  -- the last of what is stored that can be on the page, if there is more
local function take_stored()  -- the set has the order of pages
  local key, offset, chunk = P .. 'a:' .. said.consumer, 0, said.enough + 1
  local counts, nths, ahead = count_nothing(), {}, {}
  while true do
    local some = redis.call('ZREVRANGE', key, offset, offset + chunk - 1)
    for _, member in ipairs(some) do
      local ts, id, producer = string.match(member, '^(.-)%z(.-)%z(.*)$')
      ts = tonumber(ts)
      if is_enough(counts, ts) then
        floor = found[#found]
        -- Somebody who is pulled may have to be on the page with an older entry, if it is recent.
        if said.k and counts.fresh < said.enough and floor[1] > recent then floor = {recent, '', ''} end
        return
      end
      if ahead[producer] == nil then
        local state = not hidden[producer] and redis.call('HGET', P .. 'p:' .. said.consumer, producer)
        ahead[producer] = state and is_ahead(state) or false
      end
      local nth = (nths[producer] or 0) + 1
      nths[producer] = nth
      if ahead[producer] and nth <= said.shown then
        found[#found + 1] = {ts, id, producer, nth = nth, stored = true}
        count(counts, nth, ts)
      end
    end
    if #some < chunk then return end
    offset, chunk = offset + chunk, chunk * 2
  end
end
if not ceiling then take_stored() end

-- What is pulled is merged, newest first: a heap of producers by their next entry, or by the time of their newest event
-- until they are looked at, which is only when everything newer has been taken.
local stored, heap, counts = #found
local function start_heap()
  for n = #found, stored + 1, -1 do found[n] = nil end
  heap, counts = {}, count_nothing()
end
local function is_before(one, other)
  if one.ts ~= other.ts then return one.ts > other.ts end
  if not (one.entry and other.entry) then return not one.entry and other.entry ~= nil end
  return newer(one.entry, other.entry)
end
local function push(producer, newest)
  local one = {producer = producer, ts = newest, nth = 0, offset = 0, chunk = 2}
  local last = said.last and said.last[producer]
  if ceiling then one.ts = math.min(one.ts, ceiling[1]) end
  if last then
    one.after = {tonumber(last[1]), last[2], producer}
    one.ts = math.min(one.ts, one.after[1])
  end
  local place = #heap + 1
  heap[place] = one
  while place > 1 and is_before(one, heap[math.floor(place / 2)]) do
    local above = math.floor(place / 2)
    heap[place], heap[above] = heap[above], one
    place = above
  end
end
local function sift_down()
  local place, count = 1, #heap
  while true do
    local best, left = place, 2 * place
    if left <= count and is_before(heap[left], heap[best]) then best = left end
    if left < count and is_before(heap[left + 1], heap[best]) then best = left + 1 end
    if best == place then return end
    heap[place], heap[best] = heap[best], heap[place]
    place = best
  end
end
local function find_next(one)  -- the next entry of a producer that may be on the page; none if there is no more
  one.entry = nil
  if not one.top then one.top = number(one.ts) end
  while one.nth < said.shown do
    if not one.some or one.place > #one.some then
      if one.is_end then return end
      one.some = redis.call('ZREVRANGEBYSCORE', own(one.producer, 'e'), one.top, '-inf', 'LIMIT', one.offset, one.chunk)
      one.is_end, one.offset, one.place = #one.some < one.chunk, one.offset + #one.some, 1
      one.chunk = 2 * one.chunk
      if #one.some == 0 then return end
    end
    local id, from, to, ts = cut(one.some[one.place])
    one.place = one.place + 1
    if is_there(from, to, at) then
      local entry = {tonumber(ts), id, one.producer, from = from, nth = one.nth + 1, stored = false}
      if not (ceiling and newer(entry, ceiling)) and not (one.after and not newer(one.after, entry)) then
        one.nth, one.entry, one.ts = one.nth + 1, entry, entry[1]
        return
      end
    end
  end
end
local function is_done(ts)  -- whether nothing from this time on can be on the page
  return is_enough(counts, ts) or (floor and ts < floor[1]) or ts == -math.huge
end
local function merge(down_to)  -- others may come from that time on; whether they can be on the page no more
  while heap[1] do
    local one = heap[1]
    if is_done(math.max(one.ts, down_to)) then return true end
    if one.ts <= down_to then return false end
    if one.entry then
      if floor and newer(floor, one.entry) then return true end
      found[#found + 1] = one.entry
      count(counts, one.nth, one.ts)
    end
    find_next(one)
    if not one.entry then
      heap[1] = heap[#heap]
      heap[#heap] = nil
    end
    sift_down()
  end
  return is_done(down_to)
end
local function walk()  -- the newest of all producers, until nobody else can be on the page; false if that takes long
  local steps, chunk = 0, 100
  while steps < said.steps do
    local some = redis.call('ZREVRANGE', N, steps, steps + chunk - 1, 'WITHSCORES')
    for n = 1, #some, 2 do
      local state = not hidden[some[n]] and redis.call('HGET', P .. 'p:' .. said.consumer, some[n])
      if state and (ceiling or not is_ahead(state)) then push(some[n], tonumber(some[n + 1])) end
    end
    steps = steps + #some / 2
    if merge(#some < 2 * chunk and -math.huge or tonumber(some[#some])) then return true end
    chunk = chunk * 2
  end
  return false
end
local function look_at_all()
  visit_newest(function(state) return ceiling or not is_ahead(state) end, push)
  merge(-math.huge)
end
start_heap()
if redis.call('HLEN', P .. 'p:' .. said.consumer) <= said.most_few or not walk() then
  start_heap()
  look_at_all()
end
table.sort(found, newer)
local answer, few = {t}, 0
for place, entry in ipairs(found) do
  local is_few = said.k and entry.nth <= said.k
  if is_few then few = few + 1 end
  if place <= said.enough or (is_few and few <= said.enough) or (said.k and entry.nth == 1 and entry[1] >= recent) then
    local from = entry.from or find_version(entry[3], number(entry[1]), entry[2])
    if from then
      local body = redis.call('HGET', own(entry[3], 'b'), name_body(number(entry[1]), entry[2], from))
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
  local key, first, count, offset, chunk = own(producer, 'e'), nil, 0, 0, 8
  if redis.call('ZCARD', key) < said.keep then return nil end
  while true do
    local some = redis.call('ZRANGE', key, offset, offset + chunk - 1)
    for _, member in ipairs(some) do
      local id, from, to, ts = cut(member)
      if is_there(from, to, at) then
        first = first or {tonumber(ts), id, ''}
        count = count + 1
        if floor and not newer(first, floor) then return nil end
        if count >= said.keep then return first end
      end
    end
    if #some < chunk then return nil end
    offset, chunk = offset + chunk, chunk * 4
  end
end
local function add_end(producer)
  local first = find_end(producer)
  if first then answer[#answer + 1] = {producer, number(first[1]), first[2]} end
end
local followed = P .. 'p:' .. said.consumer
-- Whoever has said nothing since the floor has nothing above it. It is enough to look at the others, if they are fewer.
if floor and redis.call('ZCOUNT', N, said.floor[1], '+inf') < redis.call('HLEN', followed) then
  for _, producer in ipairs(redis.call('ZRANGEBYSCORE', N, said.floor[1], '+inf')) do
    if not hidden[producer] and redis.call('HEXISTS', followed, producer) == 1 then add_end(producer) end
  end
else
  visit_newest(function() return true end, function(producer, newest)
    if not floor or newest >= floor[1] then add_end(producer) end
  end)
end
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
local function is_read(producer, ts, id, at)  -- whether any version of an event is there; without ids, times tell
  local first, last = '-inf', '+inf'
  if id == '' then first, last = ts, ts end
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', own(producer, 'e'), first, last)) do
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
        local body = redis.call('HGET', own(producer, 'b'), name_body(ts, id, from))
        rows[#rows + 1] = {from, 0, producer, ts, id, body}
      end
    end
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', F .. ':{events}:x', number(after), t)) do
      local producer, id, ts, _, to = unpack(cjson.decode(member))
      if is_told(tonumber(to), tonumber(ts), id, producer) and not is_read(producer, ts, id, at) then
        rows[#rows + 1] = {to, 1, producer, ts, id, ''}
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
      local ts = number(tonumber(some[n + 1]))
      answer[#answer + 1] = {producer, ts, id, redis.call('HGET', own(producer, 'b'), name_body(ts, id, from)), 0}
    end
  end
end
return answer
"""
)

HIDE = (
    PREAMBLE
    + """
local key = F .. ':{' .. said.part .. '}:h:' .. said.consumer
local row = said.producer .. NUL .. said.kind
local function has_room()
  if said.kind == said.blocked or redis.call('SCARD', key) < said.most then return true end
  local own = 0
  for _, other in ipairs(redis.call('SMEMBERS', key)) do
    if string.sub(other, -#said.blocked - 1) ~= NUL .. said.blocked then own = own + 1 end
  end
  return own < said.most
end
if redis.call('SISMEMBER', key, row) == 1 then return 1 end
if not has_room() then return 0 end
redis.call('SADD', key, row)
return 1
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
  local producer, id, ts, from, to = unpack(cjson.decode(member))
  redis.call('ZREM', own(producer, 'e'), name_version(ts, id, from, to))
  redis.call('HDEL', own(producer, 'b'), name_body(ts, id, from))
  local rest = redis.call('ZREVRANGE', own(producer, 'e'), 0, 0, 'WITHSCORES')
  if rest[1] then redis.call('ZADD', F .. ':{events}:n', rest[2], producer)
  else redis.call('ZREM', F .. ':{events}:n', producer) end
  redis.call('ZREM', F .. ':{events}:x', member)
end
return #ended
"""
)

SIZES_OF_PART = (
    PREAMBLE
    + """
local pairs_, ahead, entries = 0, 0, 0
local P = F .. ':{' .. said.part .. '}:'
for _, consumer in ipairs(redis.call('SMEMBERS', P .. 'c')) do
  for _, value in ipairs(redis.call('HVALS', P .. 'p:' .. consumer)) do
    pairs_ = pairs_ + 1
    if string.sub(value, 1, 1) == '1' then ahead = ahead + 1 end
  end
  entries = entries + redis.call('ZCARD', P .. 'a:' .. consumer)
end
return {pairs_, ahead, entries}
"""
)

SIZES_OF_EVENTS = (
    PREAMBLE
    + """
local found, events = redis.call('ZSCAN', F .. ':{events}:n', said.cursor, 'COUNT', said.count), 0
for n = 1, #found[2], 2 do events = events + redis.call('HLEN', own(found[2][n], 'o')) end
return {found[1], events}
"""
)

ONE_SLOT = (PARTS, FLIP, HIDE, MARK_SEEN, ADD_COUNTS, SIZES_OF_PART)
