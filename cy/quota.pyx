"""Computes rates, and what a client may still use: the part of quotas that runs for each request.

The arithmetic is Kafka's (``Rate``, ``SampledStat``). A rate is the sum of its samples, divided by the time that they
cover. A sample has what was recorded within a window of time. The samples of the last ``number`` windows are kept. The
time is at least that of ``number`` - 1 windows, even if less has passed. So a client may use in its first second what
it may use in all windows together.

Time is an argument, in whole milliseconds.
"""

from collections import deque
from math import floor

from cython cimport final
from libc.stdint cimport int64_t

MOST_MS = 0x7FFF_FFFF

cdef enum:
    PERCENT = 100
    SECOND_MS = 1000

cdef int64_t NEVER = -(1 << 62)
cdef double MOST_AT_ONCE = 1 << 62
LONGEST_MS = 1 << 61                      # the longest time of all windows together, so that no sum of times overflows


def rounded(double milliseconds):
    return min(floor(milliseconds + 0.5), MOST_MS)


cdef class Rate:
    def __init__(self, windows):
        number, size_ms = windows
        self.windows = windows
        self.number = number
        self.size_ms = min(size_ms, LONGEST_MS // number)
        self.samples = deque()
        self.start_ms = self.last_ms = NEVER

    cdef int count(self, double value, int64_t now_ms) except -1:
        if now_ms - self.start_ms >= self.size_ms:
            self.begin(now_ms)
        self.last_ms = now_ms
        self.sum += value
        self.total += value
        return 0

    cdef int begin(self, int64_t now_ms) except -1:
        """Begins the next sample."""
        if self.start_ms != NEVER:
            self.samples.append((self.start_ms, self.last_ms, self.sum))
            if len(self.samples) > self.number:
                self.total -= self.samples.popleft()[2]
        self.start_ms = now_ms
        self.sum = 0
        return 0

    cdef int forget(self, int64_t now_ms) except -1:
        """Drops samples that are older than the measured time."""
        cdef int64_t oldest_ms = now_ms - self.number * self.size_ms
        while self.samples and self.samples[0][1] <= oldest_ms:
            self.total -= self.samples.popleft()[2]
        if not self.samples and self.last_ms <= oldest_ms:
            self.start_ms = NEVER
            self.sum = self.total = 0
        return 0

    cdef int64_t measured(self, int64_t now_ms) except -1:
        cdef int64_t elapsed_ms, missing, start_ms
        self.forget(now_ms)
        start_ms = self.samples[0][0] if self.samples else self.start_ms
        elapsed_ms = 0 if start_ms == NEVER else now_ms - start_ms
        missing = self.number - 1 - elapsed_ms // self.size_ms
        if missing > 0:
            elapsed_ms += missing * self.size_ms
        return max(elapsed_ms, 1)

    def record(self, double value, double now_ms):
        self.count(value, <int64_t> now_ms)

    def is_idle(self, double now_ms):
        self.forget(<int64_t> now_ms)
        return self.start_ms == NEVER

    def measured_ms(self, double now_ms):
        return self.measured(<int64_t> now_ms)

    def per_second(self, double now_ms):
        cdef int64_t measured_ms = self.measured(<int64_t> now_ms)  # first, because it drops samples
        return self.total / (<double> measured_ms / SECOND_MS)

    def until_ms(self, double bound, double now_ms):
        cdef int64_t measured_ms = self.measured(<int64_t> now_ms)
        cdef double over = self.total / (<double> measured_ms / SECOND_MS) - bound
        return rounded(over / bound * measured_ms) if over > 0 else 0


@final
cdef class Allowance(Rate):
    def __init__(self, windows, most_ms=MOST_MS):
        Rate.__init__(self, windows)
        self.most_ms = most_ms
        self.bound = 0

    @property
    def bound(self):
        return self.per_s

    @bound.setter
    def bound(self, double bound):
        self.per_s = bound
        self.most_at_once = int(min(bound * (self.number - 1) * self.size_ms / SECOND_MS, MOST_AT_ONCE))

    def use(self, double amount, double now_ms):
        self.count(amount, <int64_t> now_ms)
        return self.delay_ms(now_ms)

    def delay_ms(self, double now_ms):
        if self.total <= self.most_at_once:
            return 0
        return min(self.until_ms(self.per_s, now_ms), self.most_ms)

    def use_or_wait(self, int64_t amount, int64_t now_ms):
        self.count(amount, now_ms)
        if self.total <= self.most_at_once:
            return True, 0
        delay_ms = self.delay_ms(now_ms)
        if delay_ms and self.total > amount:
            self.count(-amount, now_ms)
            return False, delay_ms
        return True, delay_ms


@final
cdef class Share:
    def __init__(self, Allowance produce, Allowance fetch, Allowance request, mutations):
        self.produce = produce
        self.fetch = fetch
        self.request = request
        self.mutations = mutations
        self.is_current = True

    def is_within(self, bint produces, response, int64_t size, double now_s):
        cdef Allowance produce = self.produce
        if not self.is_current or (self.request is not None and self.request.total > self.request.most_at_once):
            return False
        if response is not None and getattr(response, "throttle_time_ms", None) != 0:
            return False
        if produces and produce is not None:
            if produce.total + size > produce.most_at_once:
                return False
            produce.count(size, <int64_t> (now_s * SECOND_MS))
        return True

    def spend(self, double seconds, double now_s):
        if self.is_current and self.request is not None:
            self.request.count(seconds * PERCENT, <int64_t> (now_s * SECOND_MS))
        return self.is_current
