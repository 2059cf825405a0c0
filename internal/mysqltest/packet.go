package mysqltest

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
	"slices"
)

const maxPayload = 1<<24 - 1 // of one packet on the wire; longer ones come in pieces

// packet is a command as the client sent it, pieces joined.
type packet struct {
	sequence byte // of the last piece
	payload  []byte
	err      error // errTooLarge, and then no payload
}

// readPacket reads a packet of at most limit bytes. Memory grows with what arrives, not with what the header promises.
func readPacket(r *bufio.Reader, limit int) (packet, error) {
	var p packet
	for {
		var header [4]byte
		if _, err := io.ReadFull(r, header[:]); err != nil {
			return packet{}, err
		}
		n := int(header[0]) | int(header[1])<<8 | int(header[2])<<16
		p.sequence = header[3]
		if p.err != nil || len(p.payload)+n > limit {
			// read to its end all the same: a socket closed with unread data loses the answer to a reset
			p.payload, p.err = nil, errTooLarge
			if _, err := r.Discard(n); err != nil {
				return packet{}, err
			}
		} else {
			var err error
			if p.payload, err = appendFrom(p.payload, r, n); err != nil {
				return packet{}, err
			}
		}
		if n < maxPayload {
			return p, nil
		}
	}
}

// appendFrom appends n bytes from r to b.
func appendFrom(b []byte, r io.Reader, n int) ([]byte, error) {
	const step = 64 << 10
	for n > 0 {
		m := min(n, max(step, len(b))) // at most doubles
		old := len(b)
		b = slices.Grow(b, m)[:old+m]
		if _, err := io.ReadFull(r, b[old:]); err != nil {
			return b, err
		}
		n -= m
	}
	return b, nil
}

// packetWriter writes packets with rising sequence ids into a buffer. The first error sticks and comes back from flush.
type packetWriter struct {
	w        *bufio.Writer
	sequence byte
	err      error
}

func (p *packetWriter) write(payload []byte) {
	for {
		n := min(len(payload), maxPayload)
		header := appendUint24(make([]byte, 0, 4), uint64(n))
		header = append(header, p.sequence)
		p.sequence++
		for _, part := range [][]byte{header, payload[:n]} {
			if _, err := p.w.Write(part); err != nil {
				p.err = err
				return
			}
		}
		payload = payload[n:]
		if n < maxPayload { // a piece of full size is followed by another, even an empty one
			return
		}
	}
}

// failed says whether the connection has broken.
func (p *packetWriter) failed() bool { return p.err != nil }

func (p *packetWriter) flush() error { return p.w.Flush() }

func appendLenInt(b []byte, n uint64) []byte {
	switch {
	case n < 251:
		return append(b, byte(n))
	case n <= math.MaxUint16:
		return binary.LittleEndian.AppendUint16(append(b, 0xfc), uint16(n))
	case n < 1<<24:
		return appendUint24(append(b, 0xfd), n)
	}
	return binary.LittleEndian.AppendUint64(append(b, 0xfe), n)
}

// appendUint24 appends the low three bytes of n.
func appendUint24(b []byte, n uint64) []byte {
	b = binary.LittleEndian.AppendUint64(b, n)
	return b[:len(b)-5]
}

func appendLenString[T string | []byte](b []byte, s T) []byte {
	return append(appendLenInt(b, uint64(len(s))), s...)
}

// cursor reads the fields of a payload. After one that is not there ok is false and all fields are zero.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) bytes(n uint64) []byte {
	if c.bad || n > uint64(len(c.rest)) {
		c.bad = true
		return nil
	}
	out := c.rest[:n:n]
	c.rest = c.rest[n:]
	return out
}

// uint reads a little-endian number of n bytes, n at most 8.
func (c *cursor) uint(n uint64) uint64 {
	var v uint64
	for i, b := range c.bytes(n) {
		v |= uint64(b) << (8 * i)
	}
	return v
}

// text reads up to a zero byte.
func (c *cursor) text() string {
	for i, b := range c.rest {
		if b == 0 {
			s := string(c.bytes(uint64(i)))
			c.bytes(1)
			return s
		}
	}
	c.bad = true
	return ""
}

// uint8, uint16 and uint32 read little-endian numbers.
func (c *cursor) uint8() uint8 {
	if b := c.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) uint16() uint16 {
	if b := c.bytes(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) uint32() uint32 {
	if b := c.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) lenInt() uint64 {
	switch first := c.uint(1); first {
	case 0xfc:
		return c.uint(2)
	case 0xfd:
		return c.uint(3)
	case 0xfe:
		return c.uint(8)
	case 0xfb, 0xff: // NULL and an error header: no length
		c.bad = true
		return 0
	default:
		return first
	}
}

func (c *cursor) lenBytes() []byte { return c.bytes(c.lenInt()) }
