package tiers

import (
	"encoding"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// A read is PTTL, then GET, of one key in one pipeline: they reach one node over one connection, next to each other, so
// Redis runs them in this order, whatever else the pipeline carries. If a write slips in between, the remaining life is
// that of the older value: the age errs to old, or the remaining life is more than the newer value can have, a miss.
//
// One thing could turn the order round: in a cluster whose slots are moving, go-redis sends a command again to the node
// that it was redirected to, each command by itself. If only PTTL was redirected it runs after GET. So both count their
// redirections, and a read counts only if GET was sent on at least as often as PTTL.

type pttlCmd struct {
	*redis.DurationCmd
	redirects int
}

// SetErr is how go-redis records every answer of a command.
func (c *pttlCmd) SetErr(err error) {
	if isRedirect(err) {
		c.redirects++
	}
	c.DurationCmd.SetErr(err)
}

type getCmd struct {
	*redis.StringCmd
	redirects int
}

// SetErr is how go-redis records every answer of a command.
func (c *getCmd) SetErr(err error) {
	if isRedirect(err) {
		c.redirects++
	}
	c.StringCmd.SetErr(err)
}

// ordered reports whether PTTL ran before GET.
func (c *call) ordered() bool { return c.get.redirects >= c.pttl.redirects }

// timeLeft is an argument of a command: the milliseconds until a moment, as of when the command is written to a
// connection. Whatever the client did before (waited for a connection, dialled, tried once before) thus counts.
type timeLeft struct{ until time.Time }

var _ encoding.BinaryMarshaler = (*timeLeft)(nil) // which is what go-redis writes

func (l *timeLeft) MarshalBinary() ([]byte, error) {
	ms := max(time.Until(l.until).Milliseconds(), 1) // Redis takes nothing less, and there is no way to take the command back
	return strconv.AppendInt(nil, ms, 10), nil
}
