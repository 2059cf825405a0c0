package tiers

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/cespare/xxhash/v2"
)

// An envelope is what Redis holds under a key: a header of fixed size, then the payload. Numbers are big-endian and
// unsigned; durations are whole units, never negative and below 2⁵³ so that a Lua script can read them. Offsets in bytes:
//
//	 0  2  magic, 0x5E 0xD5
//	 2  1  version, 1
//	 3  1  flags: bit 0 not-found (then there is no payload), bit 1 compressed; others zero
//	 4  1  codec id; 0 for not-found
//	 5  3  type fingerprint, the low 24 bits
//	 8  8  hash of the whole Redis key (XXH64)
//	16  8  generation
//	24  8  fencing number
//	32  8  life in ms, from the start of the load to the end of the last stale window
//	40  8  TTL in ms, from the start of the load to the end of the fresh life
//	48  8  age in ms at the moment of storing
//	56  8  load time in µs
//	64  8  checksum: XXH64 of all other bytes, header first
//	72     payload
//
// testdata/wire/v1 holds an example of every kind; a change of the layout takes a new version and a new directory.
const (
	envelopeMagic   = 0x5ED5
	envelopeVersion = 1
	checksumAt      = 64
	headerSize      = 72

	flagNotFound   = 1 << 0
	flagCompressed = 1 << 1

	maxField = 1<<53 - 1
)

// header is the part of an envelope that says what the payload is and how long it is good for.
type header struct {
	flags       byte
	codec       byte
	fingerprint uint32 // 24 bits
	keyHash     uint64
	generation  uint64
	number      uint64
	life        time.Duration // in the envelope in whole ms, as are ttl and age
	ttl         time.Duration
	age         time.Duration
	loadTime    time.Duration // in the envelope in whole µs
}

// The reasons why bytes are no envelope. They are compared, never shown.
var (
	errShort    = errors.New("shorter than a header, or no magic number")
	errVersion  = errors.New("another version")
	errChecksum = errors.New("wrong checksum")
	errFields   = errors.New("impossible header")
)

// appendHeader appends h to dst, with a checksum that seal must fill in when the payload has followed.
func appendHeader(dst []byte, h header) []byte {
	dst = binary.BigEndian.AppendUint16(dst, envelopeMagic)
	dst = append(dst, envelopeVersion, h.flags, h.codec,
		byte(h.fingerprint>>16), byte(h.fingerprint>>8), byte(h.fingerprint)) //nolint:gosec // taken apart byte by byte
	for _, n := range [...]uint64{
		h.keyHash, h.generation, h.number,
		units(h.life, time.Millisecond), units(h.ttl, time.Millisecond), units(h.age, time.Millisecond), units(h.loadTime, time.Microsecond),
		0,
	} {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	return dst
}

// seal fills in the checksum of a whole envelope.
func seal(envelope []byte) {
	binary.BigEndian.PutUint64(envelope[checksumAt:], checksum(envelope))
}

// parseEnvelope takes an envelope apart. The payload aliases b. It returns an error for anything that seal did not leave
// exactly so: no byte of an envelope can change unnoticed.
func parseEnvelope(b []byte) (h header, payload []byte, err error) {
	if len(b) < headerSize || binary.BigEndian.Uint16(b) != envelopeMagic {
		return header{}, nil, errShort
	}
	if b[2] != envelopeVersion {
		return header{}, nil, errVersion
	}
	if checksum(b) != binary.BigEndian.Uint64(b[checksumAt:]) {
		return header{}, nil, errChecksum
	}
	h = header{
		flags: b[3], codec: b[4],
		fingerprint: uint32(b[5])<<16 | uint32(b[6])<<8 | uint32(b[7]),
		keyHash:     binary.BigEndian.Uint64(b[8:]),
		generation:  binary.BigEndian.Uint64(b[16:]),
		number:      binary.BigEndian.Uint64(b[24:]),
	}
	ok := h.flags&^(flagNotFound|flagCompressed) == 0
	for _, f := range [...]struct {
		at   int
		unit time.Duration
		to   *time.Duration
	}{
		{32, time.Millisecond, &h.life},
		{40, time.Millisecond, &h.ttl},
		{48, time.Millisecond, &h.age},
		{56, time.Microsecond, &h.loadTime},
	} {
		n := binary.BigEndian.Uint64(b[f.at:])
		if n > maxField || n > uint64(math.MaxInt64/f.unit) { //nolint:gosec // not negative
			return header{}, nil, errFields
		}
		*f.to = time.Duration(n) * f.unit
	}
	payload = b[headerSize:]
	if !ok || h.flags&flagNotFound != 0 && (h.flags != flagNotFound || len(payload) > 0) {
		return header{}, nil, errFields
	}
	return h, payload, nil
}

func checksum(envelope []byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(envelope[:checksumAt]) //nolint:errcheck // a Digest's Write never fails
	_, _ = d.Write(envelope[headerSize:]) //nolint:errcheck // as above
	return d.Sum64()
}

// units returns how many whole units d holds, 0 for a negative d.
func units(d, unit time.Duration) uint64 {
	return min(uint64(max(d, 0)/unit), maxField) //nolint:gosec // not negative
}
