package protection

// After a trial has closed the breaker, the share of the calls that it admits rises in steps, so that a dependency which
// has just come back is not thrown over by all who waited for it.
const rampSteps = 3

// rampShares is in percent.
func rampShare(step int64) uint64 {
	switch step {
	case 0:
		return 10
	case 1:
		return 25
	case 2:
		return 50
	default:
		return 100
	}
}

// share returns how much of the calls is admitted at the given time, in percent.
func (g *generation) share(now int64) uint64 {
	if g.state != Closed {
		return 0
	}
	if now >= g.rampEnd {
		return 100
	}
	return rampShare((now - g.rampStart) / g.rampWidth())
}

func (g *generation) rampWidth() int64 { return max(1, (g.rampEnd-g.rampStart)/rampSteps) }

// rampStep returns when the share rises next.
func (g *generation) rampStep(now int64) int64 {
	return min(g.rampEnd, g.rampStart+((now-g.rampStart)/g.rampWidth()+1)*g.rampWidth())
}

// admit is for a closed breaker that does not simply admit: its share rises, or it watches calls in flight.
func (g *generation) admit(now int64, f *flights) (Permit, error) {
	if now < g.rampEnd {
		// The n-th call is admitted if the share of n is a whole call more than that of n-1, so that the first one is.
		n, percent := g.tickets.Add(1), g.share(now)
		if (n*percent+99)/100 == ((n-1)*percent+99)/100 {
			return g.refuse(now, g.b.rules.Load())
		}
	}
	p := Permit{owner: g, grant: grant{start: now}}
	if f != nil {
		f.enter(now)
		p.grant.mark = f.id<<markBits | ofFlight
	}
	return p, nil
}
