package protection

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/observe"
)

const ms = time.Millisecond

// modelBreaker is the breaker as the rules say it, on lists: the oracle of TestBreakerDoesWhatTheModelDoes.
type modelBreaker struct {
	o          BreakerOptions
	open       bool
	generation int
	since      int64
	held       int64
	nextTrial  int64
	trials     int // out
	rampStart  int64
	rampEnd    int64
	tickets    int
	nextLook   int64
	past       []modelResult // of this generation
	flying     []int64       // starts of this generation's calls in flight
	recoveries uint64
}

type modelResult struct {
	at   int64
	kind kind
}

// modelPermit is an admission.
type modelPermit struct {
	generation int
	start      int64
	trial      bool
	next       int64 // trial: when the next was to start
	shadow     bool
	tracked    bool
}

func (m *modelBreaker) width() int64 { return max(int64(m.o.Window)/10, 1e6) }

func (m *modelBreaker) counts(now int64) (c counts) {
	m.past = slices.DeleteFunc(m.past, func(r modelResult) bool { return now/m.width()-r.at/m.width() >= 10 })
	for _, r := range m.past {
		c[r.kind]++
	}
	return c
}

// overdue counts the calls whose step of an eighth of the limit ended at least a limit ago.
func (m *modelBreaker) overdue(now int64) (n uint64) {
	if m.o.OverdueAfter == 0 || m.open {
		return 0
	}
	width := max(int64(m.o.OverdueAfter)/8, 1e6)
	for _, start := range m.flying {
		if (start/width+1)*width <= now-int64(m.o.OverdueAfter) {
			n++
		}
	}
	return n
}

func (m *modelBreaker) begin(now int64, open bool) {
	was := m.open
	*m = modelBreaker{o: m.o, open: open, generation: m.generation + 1, since: now, recoveries: m.recoveries, nextTrial: now + int64(m.o.OpenFor)}
	if was && !open {
		m.recoveries++
	}
}

// judge trips if it must. The ratios of the test are halves and wholes, so that floats are exact.
func (m *modelBreaker) judge(now int64) {
	if m.open || now < m.held {
		return
	}
	c, hang := m.counts(now), m.overdue(now)
	total := c[success] + c[failure] + c[timeout] + hang
	if total <= uint64(m.o.MinCalls) {
		return
	}
	beyond := func(n uint64, ratio float64) bool {
		return float64(n)/float64(total) > ratio || n == total
	}
	if beyond(c[failure]+c[timeout]+hang, m.o.FailureRatio) || m.o.SlowAfter > 0 && beyond(c[slow]+hang, m.o.SlowRatio) {
		m.begin(now, true)
	}
}

func (m *modelBreaker) look(now int64) {
	if !m.open && m.o.OverdueAfter > 0 && now >= m.nextLook {
		m.nextLook = now + max(int64(m.o.OverdueAfter)/8, 1e6)
		m.judge(now)
	}
}

func (m *modelBreaker) share(now int64) int {
	switch {
	case m.open:
		return 0
	case now >= m.rampEnd:
		return 100
	}
	return []int{10, 25, 50, 100}[(now-m.rampStart)/((m.rampEnd-m.rampStart)/3)]
}

func (m *modelBreaker) refuse(now int64) (modelPermit, bool) {
	m.past = append(m.past, modelResult{now, rejected})
	return modelPermit{generation: m.generation, shadow: true}, m.o.Shadow
}

func (m *modelBreaker) acquire(now int64) (modelPermit, bool) {
	m.look(now)
	p := modelPermit{generation: m.generation, start: now}
	if m.open {
		if now < m.nextTrial {
			return m.refuse(now)
		}
		m.nextTrial = now + int64(m.o.OpenFor)
		if m.trials == 3 {
			return m.refuse(now)
		}
		m.trials++
		p.trial, p.next = true, m.nextTrial
		return p, true
	}
	if share := m.share(now); share < 100 {
		m.tickets++
		if (m.tickets*share+99)/100 == ((m.tickets-1)*share+99)/100 {
			return m.refuse(now)
		}
	}
	if m.o.OverdueAfter > 0 {
		m.flying = append(m.flying, now)
		p.tracked = true
	}
	return p, true
}

func (m *modelBreaker) done(p modelPermit, o Outcome, now int64) {
	if p.generation != m.generation || p.shadow && !p.trial {
		return
	}
	m.past = append(m.past, modelResult{now, kind(o - 1)})
	if p.trial {
		m.trials--
		switch {
		case o == Success && now-p.start < int64(m.o.CloseUnder):
			m.begin(now, false)
			m.rampStart, m.rampEnd = now, now+int64(m.o.Ramp)
		case o == Ignored && m.nextTrial == p.next:
			m.nextTrial = now
		}
		return
	}
	if p.tracked {
		i := slices.Index(m.flying, p.start)
		m.flying = slices.Delete(m.flying, i, i+1)
	}
	if o == Ignored {
		return
	}
	late := m.o.SlowAfter > 0 && now-p.start > int64(m.o.SlowAfter)
	if late {
		m.past = append(m.past, modelResult{now, slow})
	}
	if o != Success || late {
		m.judge(now)
	}
}

// pair is an admission by both.
type pair struct {
	permit Permit
	model  modelPermit
}

// TestBreakerDoesWhatTheModelDoes takes random steps of calls, results and time, and compares after each.
func TestBreakerDoesWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	steps := 1_000_000
	if testing.Short() || raceEnabled {
		steps = 50_000
	}

	variants := []BreakerOptions{
		{MinCalls: 5, Window: 100 * ms, OpenFor: 30 * ms, CloseUnder: 5 * ms, FailureRatio: 0.5},
		{MinCalls: 5, Window: 100 * ms, OpenFor: 30 * ms, CloseUnder: 5 * ms, FailureRatio: 1, Ramp: 60 * ms},
		{MinCalls: 3, Window: 50 * ms, OpenFor: 10 * ms, CloseUnder: 20 * ms, FailureRatio: 0.5, SlowAfter: 8 * ms, SlowRatio: 0.5},
		{MinCalls: 4, Window: 200 * ms, OpenFor: 25 * ms, CloseUnder: 20 * ms, FailureRatio: 0.5, OverdueAfter: 40 * ms},
		{MinCalls: 4, Window: 100 * ms, OpenFor: 10 * ms, CloseUnder: 20 * ms, FailureRatio: 0.5, OverdueAfter: 16 * ms, SlowAfter: 8 * ms, SlowRatio: 0.5, Ramp: 30 * ms, Shadow: true},
	}
	for i, o := range variants {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			walk(t, o, steps/len(variants), uint64(i)) //nolint:gosec // small
		})
	}
}

func walk(t *testing.T, o BreakerOptions, steps int, seed uint64) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	b, err := NewBreaker(o)
	assert.NoError(t, err)
	now := b.current.Load().since
	m := modelBreaker{o: o, since: now}
	var out []pair
	var trips, closes int
	health := 0.5 // of the dependency
	for step := range steps {
		wasOpen := m.open
		switch dice := rnd.IntN(100); {
		case dice < 30:
			now += rnd.Int64N(int64(o.Window) / 50)
		case dice < 32:
			now += rnd.Int64N(int64(o.OpenFor) * 2)
		case dice == 32 && rnd.IntN(10) == 0:
			now += rnd.Int64N(int64(o.Window) * 3)
		case dice == 33:
			health = []float64{0, 0, 0.3, 0.7, 1, 1}[rnd.IntN(6)]
		case dice < 65 && len(out) < 60:
			permit, err := b.acquire(now)
			model, ok := m.acquire(now)
			if (err == nil) != ok {
				t.Fatalf("step %d at %v: admitted %v, want %v", step, time.Duration(now), err == nil, ok)
			}
			if err == nil {
				out = append(out, pair{permit, model})
			} else if e := err.(*RejectedError); m.open && (e.RetryAfter-time.Duration(m.nextTrial-now) < 0 || e.RetryAfter-time.Duration(m.nextTrial-now) >= ms) { //nolint:errorlint // nothing else
				t.Fatalf("step %d: retry after %v, want %v", step, e.RetryAfter, time.Duration(m.nextTrial-now))
			}
		case dice < 96 && len(out) > 0:
			i := rnd.IntN(len(out))
			if dice%3 == 0 {
				i = len(out) - 1
			}
			p := &out[i]
			outcome := Success
			if rnd.Float64() > health {
				outcome = []Outcome{Failure, Timeout, Failure, Timeout, Ignored}[rnd.IntN(5)]
			}
			g := p.permit.owner.(*generation)
			if p.model.trial {
				g.endTrial(p.permit.grant, outcome, now)
			} else {
				g.endCall(p.permit.grant, outcome, now)
			}
			m.done(p.model, outcome, now)
			out = slices.Delete(out, i, i+1)
		case dice == 96 && rnd.IntN(200) == 0:
			m.begin(now, true)
			m.nextTrial = now + int64(ms)
			assert.True(t, b.become(b.current.Load(), b.rules.Load(), forceOpenAt(b, now, int64(ms))))
		case dice == 97 && rnd.IntN(200) == 0:
			m.begin(now, false)
			m.held = now + int64(o.Window)/2
			held := m.held
			assert.True(t, b.become(b.current.Load(), b.rules.Load(), forceClosedAt(b, now, held)))
		default:
			// Looking changes nothing but the time of the next look at what hangs.
			refuses := m.open && !o.Shadow && (now < m.nextTrial || m.trials == 3)
			if got := b.ready(now); (got != nil) != refuses {
				t.Fatalf("step %d: Ready is %v, want a refusal: %v", step, got, refuses)
			}
		}
		switch {
		case m.open && !wasOpen:
			trips++
		case wasOpen && !m.open:
			closes++
		}
		compare(t, step, b.snapshot(now), &m, now)
	}
	t.Logf("%d steps, %d trips, %d closes, %d calls out", steps, trips, closes, len(out))
	assert.True(t, trips > steps/2000 && closes > steps/2000, "the walk goes where it matters")
}

func compare(t *testing.T, step int, got BreakerSnapshot, m *modelBreaker, now int64) {
	t.Helper()
	c := m.counts(now)
	want := BreakerSnapshot{
		For: time.Duration(now - m.since), Reason: got.Reason, Share: m.share(now),
		Success: c[success], Failure: c[failure], Timeout: c[timeout], Slow: c[slow], Cancelled: c[cancelled], Rejected: c[rejected],
		Overdue: m.overdue(now), Trials: m.trials, Recoveries: m.recoveries,
	}
	switch {
	case m.open && m.trials > 0:
		want.State = HalfOpen
	case m.open:
		want.State = Open
	}
	if got != want {
		t.Fatalf("step %d at %v:\n got %+v\nwant %+v", step, time.Duration(now), got, want)
	}
}

func forceOpenAt(b *Breaker, now, wait int64) func() (*generation, observe.Event) {
	return func() (*generation, observe.Event) {
		return b.open(b.rules.Load(), now, now+wait, "forced"), observe.Event{}
	}
}

func forceClosedAt(b *Breaker, now, held int64) func() (*generation, observe.Event) {
	return func() (*generation, observe.Event) {
		g := b.closed(b.rules.Load(), now, "forced")
		g.held = held
		return g, observe.Event{}
	}
}
