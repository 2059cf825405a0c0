package redislimit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/snowshed-go/snowshed/observe"
)

// Window is one limit: so many units within a length of time.
type Window struct {
	Key    string        // of the counter in Redis; required
	Limit  int           // units; required, at least 1
	Length time.Duration // required; from 1 ms to 366 days, in whole microseconds
}

// WhenDown says what happens to calls while Redis does not answer.
type WhenDown uint8

// What may happen while Redis does not answer.
const (
	Admit  WhenDown = iota // they go on without this limit: a local policy behind it should hold. The default
	Refuse                 // they are refused with protection.ErrLimited
)

// Options say what [Windows] count and how.
type Options struct {
	Name string // a label for errors and events

	// Windows are the limits; a unit of work needs room in all of them. Required. On a cluster they must be in one slot, so
	// several keys need one hash tag, as in "{tenant-7}:second" and "{tenant-7}:minute".
	Windows []Window

	// Sliding makes the windows slide: of the aligned window before, the part that is still within Length counts too, as
	// if its units had come evenly. Default false: a window begins at a multiple of Length in Unix time, and up to twice
	// the Limit may come within Length around its beginning. See [Windows].
	Sliding bool

	Timeout  time.Duration    // the longest wait for Redis; default 100 ms
	WhenDown WhenDown         // what happens to calls while Redis does not answer; default Admit
	Observer observe.Observer // is told when Redis goes down and comes up again; nil for none
}

const (
	defaultTimeout = 100 * time.Millisecond
	shortest       = time.Millisecond
	longest        = 366 * 24 * time.Hour
	maxLimit       = 1 << 50 // Lua counts in float64
)

// withDefaults returns a copy of o with its defaults filled in, or an error that names the field.
func (o Options) withDefaults() (Options, error) {
	o.Windows = slices.Clone(o.Windows)
	switch {
	case len(o.Windows) == 0:
		return o, errors.New("redislimit: Options.Windows is empty: it needs at least one window")
	case o.Timeout < 0:
		return o, fmt.Errorf("redislimit: Options.Timeout is %v: it must not be negative", o.Timeout)
	case o.WhenDown > Refuse:
		return o, fmt.Errorf("redislimit: Options.WhenDown is %d: it must be Admit or Refuse", o.WhenDown)
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	keys := map[string]bool{}
	for i, w := range o.Windows {
		field := fmt.Sprintf("redislimit: Options.Windows[%d]", i)
		switch {
		case w.Key == "":
			return o, errors.New(field + `.Key is "": it must not be empty`)
		case keys[w.Key]:
			return o, errors.New(field + ".Key is used twice")
		case len(o.Windows) > 1 && (tag(w.Key) == "" || tag(w.Key) != tag(o.Windows[0].Key)):
			return o, errors.New(field + ".Key is without the hash tag of the others: one script needs all keys in one slot, so give them all the same {tag}")
		case w.Limit < 1 || int64(w.Limit) > maxLimit:
			return o, fmt.Errorf("%s.Limit is %d: it must be from 1 to 2^50", field, w.Limit)
		case w.Length < shortest || w.Length > longest || w.Length%time.Microsecond != 0:
			return o, fmt.Errorf("%s.Length is %v: it must be from 1 ms to 366 days, in whole microseconds", field, w.Length)
		}
		keys[w.Key] = true
	}
	return o, nil
}

// tag returns the part of a key that decides its slot: what is between the first { and the next }, empty if there is no
// such part (Redis cluster specification, "Hash tags").
func tag(key string) string {
	_, rest, found := strings.Cut(key, "{")
	inside, _, closed := strings.Cut(rest, "}")
	if !found || !closed {
		return ""
	}
	return inside
}
