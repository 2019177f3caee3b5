"""What is read of a feed in Valkey or Redis, as scripts (`feed_scripts.py` says which keys there are).

A page is as of its part's time, and so is everything else that is read.
"""

from __future__ import annotations

from headrace.connect.redis.feed_scripts import PREAMBLE

_FIND_PAIRS = """
local P = F .. ':{' .. said.part .. '}:'
local t = redis.call('HGET', clock(said.part), 't')
if not t then return {} end
local at = tonumber(t)
-- Before events were filled, nothing is known of them: a part that is earlier has to wait until it has come as far.
if at < tonumber(redis.call('HGET', clock('events'), 'started') or '0') then return {} end
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
  local bound = said.below and said.below[producer] or said.floor
  if ceiling then one.ts = math.min(one.ts, ceiling[1]) end
  if bound then
    one.after = {tonumber(bound[1]), bound[2], bound[3]}
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
if said.t and t ~= said.t then return {} end
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
local since, last, count = seen[1] or '-inf', {tonumber(seen[1] or '-inf'), seen[2] or '', ''}, 0
local function count_new(producer)  -- newest first, down to what was seen
  local offset, chunk = 0, 8
  while count < said.most do
    local some = redis.call('ZREVRANGEBYSCORE', own(producer, 'e'), '+inf', since, 'LIMIT', offset, chunk)
    for _, member in ipairs(some) do
      local id, from, to, ts = cut(member)
      if is_there(from, to, at) and newer({tonumber(ts), id, ''}, last) then count = count + 1 end
    end
    if #some < chunk then return end
    offset, chunk = offset + chunk, chunk * 2
  end
end
local followed = P .. 'p:' .. said.consumer
local function walk()  -- producers by their newest, until there are enough or all was seen; false if that takes long
  local steps, chunk = 0, 100
  while steps < said.steps do
    local some = redis.call('ZREVRANGEBYSCORE', N, '+inf', since, 'LIMIT', steps, chunk)
    for _, producer in ipairs(some) do
      if not hidden[producer] and redis.call('HEXISTS', followed, producer) == 1 then count_new(producer) end
      if count >= said.most then return true end
    end
    if #some < chunk then return true end
    steps, chunk = steps + chunk, chunk * 2
  end
  return false
end
if redis.call('HLEN', followed) <= said.most_few or not walk() then
  count = 0
  visit_newest(function() return true end, function(producer, newest)
    if newest >= last[1] then count_new(producer) end
  end)
end
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
