package protection

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
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
	trials     [3]int64 // places of those that are out: when the next was due after each; 0: free
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

// place returns where a trial may go: a free place, or that of one that has not come back for ten times OpenFor after the
// next was due.
func (m *modelBreaker) place(now int64) int {
	return slices.IndexFunc(m.trials[:], func(next int64) bool { return next == 0 || now-next >= 10*int64(m.o.OpenFor) })
}

func (m *modelBreaker) trialsOut() (n int) {
	for _, next := range m.trials {
		if next != 0 {
			n++
		}
	}
	return n
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
		place := m.place(now)
		if place < 0 {
			return m.refuse(now)
		}
		m.trials[place] = m.nextTrial
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
		if place := slices.Index(m.trials[:], p.next); place >= 0 {
			m.trials[place] = 0
		}
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

// walks counts the runs of the test below, so that each walks elsewhere.
var walks atomic.Uint64

// TestBreakerDoesWhatTheModelDoes takes random steps of calls, results and time, and compares after each.
func TestBreakerDoesWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	steps, walk := Share(1_000_000), walks.Add(1)
	if testing.Short() {
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
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			b, err := NewBreaker(o)
			assert.NoError(t, err)
			start := b.current.Load().since
			w := &walker{
				rnd: rand.New(rand.NewPCG(uint64(i), walk)), b: b, m: modelBreaker{o: o, since: start}, now: start, health: 0.5,
			}
			trips, closes := 0, 0
			for w.step = range steps / len(variants) {
				wasOpen := w.m.open
				w.walk(t)
				w.compare(t)
				switch {
				case w.m.open && !wasOpen:
					trips++
				case wasOpen && !w.m.open:
					closes++
				}
			}
			t.Logf("%d steps, %d trips, %d closes", w.step+1, trips, closes)
			assert.True(t, trips > w.step/2000 && closes > w.step/2000, "the walk goes where it matters")
		})
	}
}

// walker takes the same steps with a breaker and with the model.
type walker struct {
	rnd    *rand.Rand
	step   int
	now    int64
	health float64 // of the dependency: the part of its calls that succeed
	b      *Breaker
	m      modelBreaker
	out    []pair
}

// pair is an admission by both.
type pair struct {
	permit Permit
	model  modelPermit
}

func (w *walker) walk(t *testing.T) {
	t.Helper()
	o := &w.m.o
	switch dice := w.rnd.IntN(1000); {
	case dice < 300:
		w.now += w.rnd.Int64N(int64(o.Window) / 50)
	case dice < 320:
		w.now += w.rnd.Int64N(int64(o.OpenFor) * 2)
	case dice < 321:
		w.now += w.rnd.Int64N(int64(o.Window) * 3)
	case dice < 330:
		w.health = []float64{0, 0, 0.3, 0.7, 1, 1}[w.rnd.IntN(6)]
	case dice < 650 && len(w.out) < 60:
		w.acquire(t)
	case dice < 970 && len(w.out) > 0:
		w.done()
	case dice == 970 && w.rnd.IntN(20) == 0:
		w.m.begin(w.now, true)
		w.m.nextTrial = w.now + int64(ms)
		w.become(t, func(r *rules) *generation { return w.b.open(r, w.now, w.m.nextTrial, "forced") })
	case dice == 971 && w.rnd.IntN(20) == 0:
		w.m.begin(w.now, false)
		w.m.held = w.now + int64(o.Window)/2
		w.become(t, func(r *rules) *generation {
			g := w.b.closed(r, w.now, "forced")
			g.held = w.m.held
			return g
		})
	default: // a look changes nothing
		refuses := w.m.open && !o.Shadow && (w.now < w.m.nextTrial || w.m.place(w.now) < 0)
		assert.Equal(t, w.b.ready(w.now) != nil, refuses, "Ready at step ", w.step)
	}
}

func (w *walker) become(t *testing.T, next func(*rules) *generation) {
	t.Helper()
	r := w.b.rules.Load()
	assert.True(t, w.b.become(w.b.current.Load(), r, func() (*generation, observe.Event) { return next(r), observe.Event{} }))
}

func (w *walker) acquire(t *testing.T) {
	t.Helper()
	permit, err := w.b.acquire(w.now)
	model, ok := w.m.acquire(w.now)
	assert.Equal(t, err == nil, ok, "admitted at step ", w.step)
	if err == nil {
		w.out = append(w.out, pair{permit, model})
		return
	}
	if w.m.open {
		late := assert.ErrorAs[*RejectedError](t, err).RetryAfter - time.Duration(w.m.nextTrial-w.now)
		assert.True(t, late >= 0 && late < ms, "RetryAfter at step ", w.step, " is wrong by ", late)
	}
}

func (w *walker) done() {
	i := w.rnd.IntN(len(w.out))
	if w.rnd.IntN(3) == 0 {
		i = len(w.out) - 1 // quick ones, so that trials succeed
	}
	p := &w.out[i]
	outcome := Success
	if w.rnd.Float64() > w.health {
		outcome = []Outcome{Failure, Timeout, Failure, Timeout, Ignored}[w.rnd.IntN(5)]
	}
	g := p.permit.owner.(*generation)
	if p.model.trial {
		g.endTrial(p.permit.grant, outcome, w.now)
	} else {
		g.endCall(p.permit.grant, outcome, w.now)
	}
	w.m.done(p.model, outcome, w.now)
	w.out = slices.Delete(w.out, i, i+1)
}

func (w *walker) compare(t *testing.T) {
	t.Helper()
	got, m := w.b.snapshot(w.now), &w.m
	c := m.counts(w.now)
	want := BreakerSnapshot{
		For: time.Duration(w.now - m.since), Reason: got.Reason, Share: m.share(w.now),
		Success: c[success], Failure: c[failure], Timeout: c[timeout], Slow: c[slow], Cancelled: c[cancelled], Rejected: c[rejected],
		Overdue: m.overdue(w.now), Trials: m.trialsOut(), Recoveries: m.recoveries,
	}
	switch {
	case m.open && m.trialsOut() > 0:
		want.State = HalfOpen
	case m.open:
		want.State = Open
	}
	if got != want {
		t.Fatalf("step %d at %v:\n got %+v\nwant %+v", w.step, time.Duration(w.now), got, want)
	}
}
