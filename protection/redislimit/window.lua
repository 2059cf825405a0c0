-- Takes ARGV[1] units from every counter, or from none. ARGV[2] is 1 for sliding windows. Each key has two more arguments:
-- the limit and the length of the window in µs.
-- A counter is a hash: w the number of the latest window, c the units taken in it, p those in the one before.
-- Returns {1}, or {0, µs until all of them may have room, number of the key that needs the longest}; the time as text, since
-- some servers answer integers of 32 bits where that is what their machine has.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local n, sliding = tonumber(ARGV[1]), ARGV[2] == '1'
local counters, retry, full = {}, 0, 0

for i, key in ipairs(KEYS) do
  local limit, length = tonumber(ARGV[1 + 2 * i]), tonumber(ARGV[2 + 2 * i])
  local window = math.floor(now / length)
  local stored = redis.call('HMGET', key, 'w', 'c', 'p')
  local at = tonumber(stored[1] or '') or -1
  local count, before = 0, 0
  if at == window or at == window + 1 then -- the latter after a failover to a server whose clock is a little behind
    window, count, before = at, tonumber(stored[2] or '') or 0, tonumber(stored[3] or '') or 0
  elseif at == window - 1 then
    before = tonumber(stored[2] or '') or 0
  end
  local elapsed = math.max(now - window * length, 0)
  local weighed = 0
  if sliding then
    weighed = before * (length - elapsed) / length
  end
  if weighed + count + n > limit then
    local room, free = limit - n, (window + 1) * length
    if sliding and count <= room then -- the window before weighs too much for a while
      free = window * length + length - (room - count) * length / before + 1
    elseif sliding then -- and so will this one in the next
      free = free + length - room * length / count + 1
    end
    local wait = math.ceil(free - now)
    if wait > retry then
      retry, full = wait, i
    end
  end
  -- What is counted now weighs until the end of the next window: two windows from its start.
  counters[i] = {window, count + n, before, math.ceil(2 * length / 1000) + 1000}
end

for i, key in ipairs(KEYS) do
  local c = counters[i]
  if full == 0 then
    redis.call('HSET', key, 'w', c[1], 'c', c[2], 'p', c[3])
    redis.call('PEXPIRE', key, c[4])
  elseif redis.call('PTTL', key) == -1 then -- somebody has made it last for ever
    redis.call('PEXPIRE', key, c[4])
  end
end

if full == 0 then
  return {1}
end
return {0, string.format('%.0f', retry), full}
