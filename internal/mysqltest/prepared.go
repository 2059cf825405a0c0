package mysqltest

import (
	"encoding/binary"
	"math"
	"time"
)

// prepared is a prepared statement of a session.
type prepared struct {
	*statement
	types    []uint16 // of the parameters, as last sent
	longData map[int][]byte
}

// maxPrepared bounds what one session may hold, as max_prepared_stmt_count does.
const maxPrepared = 16382

// prepare keeps sql and writes the answer. The number of result columns is reported as 0, which drivers take from the
// reply to EXECUTE anyway.
func (c *session) prepare(sql string) {
	st := parse(sql)
	c.srv.arrived("PREPARE", false)
	switch {
	case st.several || st.key == "":
		c.reply.error(Errno(1064))
		return
	case verb(st.key) == "kill" && st.params > 0:
		c.reply.error(Errno(6413))
		return
	case st.params > math.MaxUint16:
		c.reply.error(errorf(1390, "Prepared statement contains too many placeholders"))
		return
	case len(c.prepared) >= maxPrepared:
		c.reply.error(errorf(1461, "Can't create more than max_prepared_stmt_count statements (current value: %d)", maxPrepared))
		return
	}
	c.lastPrepared++
	c.prepared[c.lastPrepared] = &prepared{statement: st}

	b := c.reply.start(headerOK)
	b = binary.LittleEndian.AppendUint32(b, c.lastPrepared)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(st.params)) //nolint:gosec // checked above
	b = append(b, 0, 0, 0)                                     // filler, warnings
	c.reply.send(b)
	if st.params > 0 {
		for range st.params {
			c.reply.column("?", Text)
		}
		c.reply.endOfColumns()
	}
}

// sendLongData adds a piece to a parameter; it has no answer. What makes no sense shows at EXECUTE.
func (c *session) sendLongData(payload []byte) {
	in := cursor{rest: payload}
	id, param := in.uint32(), int(in.uint16())
	p, ok := c.prepared[id]
	if in.bad || !ok || param >= p.params || len(p.longData[param])+len(in.rest) > c.srv.opts.MaxAllowedPacket {
		return
	}
	if p.longData == nil {
		p.longData = make(map[int][]byte)
	}
	p.longData[param] = append(p.longData[param], in.rest...)
}

// bind reads the parameters of an EXECUTE, from behind the statement's id. It returns false if they are malformed.
func (p *prepared) bind(payload []byte) ([]any, bool) {
	in := cursor{rest: payload}
	in.bytes(1 + 4) // cursor type, iteration count
	args := make([]any, p.params)
	if p.params == 0 {
		return args, !in.bad
	}
	nulls := in.bytes(uint64(p.params+7) / 8) //nolint:gosec // a length
	if in.uint8() == 1 {                      // types follow
		p.types = make([]uint16, p.params)
		for i := range p.types {
			p.types[i] = in.uint16()
		}
	}
	if in.bad || len(p.types) != p.params {
		return nil, false
	}
	for i := range args {
		long, isLong := p.longData[i]
		switch {
		case isLong:
			args[i] = string(long)
		case nulls[i/8]&(1<<(i%8)) == 0:
			args[i] = in.param(p.types[i])
		}
	}
	p.longData = nil
	return args, !in.bad
}

// param reads a value of the given type, whose high byte has the flag for unsigned.
func (c *cursor) param(t uint16) any {
	unsigned := t&0x8000 != 0
	switch t & 0xff {
	case 0x06: // NULL
		return nil
	case 0x01:
		return c.integer(1, unsigned)
	case 0x02, 0x0d: // SHORT, YEAR
		return c.integer(2, unsigned)
	case 0x03, 0x09: // LONG, INT24
		return c.integer(4, unsigned)
	case 0x08:
		return c.integer(8, unsigned)
	case 0x04:
		return float64(math.Float32frombits(c.uint32()))
	case 0x05:
		return math.Float64frombits(c.uint(8))
	case 0x07, 0x0a, 0x0c: // TIMESTAMP, DATE, DATETIME
		return c.dateTime()
	case 0x0b: // TIME: spelled by drivers as a string in practice
		return string(c.bytes(c.uint(1)))
	case 0xf9, 0xfa, 0xfb, 0xfc: // BLOBs
		return append([]byte{}, c.lenBytes()...)
	default:
		return string(c.lenBytes())
	}
}

// integer reads n bytes and extends their sign.
func (c *cursor) integer(n uint64, unsigned bool) any {
	v := c.uint(n)
	if unsigned {
		return v
	}
	shift := 64 - 8*n
	return int64(v<<shift) >> shift //nolint:gosec // two's complement is the wire format
}

func (c *cursor) dateTime() any {
	in := cursor{rest: c.bytes(c.uint(1))}
	switch len(in.rest) {
	case 0:
		return time.Time{}
	case 4, 7, 11:
	default:
		c.bad = true
		return nil
	}
	part := func(n uint64) int {
		if len(in.rest) == 0 {
			return 0
		}
		return int(in.uint(n)) //nolint:gosec // four bytes at most
	}
	year, month, day := part(2), part(1), part(1)
	hour, minute, second, micro := part(1), part(1), part(1), part(4)
	return time.Date(year, time.Month(month), day, hour, minute, second, micro*1000, time.UTC)
}
