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
local ended = redis.call('ZRANGEBYSCORE', F .. ':{events}:x', '-inf', '(' .. number(horizon - said.kept), 'LIMIT', 0,
  said.most)
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
