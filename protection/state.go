package protection

// State is what a [Breaker] does with calls.
type State uint8

// The states of a breaker.
const (
	Closed   State = iota // it admits all calls
	Open                  // it refuses all calls until the next trial is due
	HalfOpen              // as Open, while a trial call is out
)

// String returns "closed", "open" or "half-open".
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half-open"
	default:
		return "unknown"
	}
}
