package tiers

import (
	"errors"

	"github.com/klauspost/compress/s2"
)

var errOversize = errors.New("the payload would be larger than the size limit")

// compress returns src as an s2 block, in buf if that is large enough, and true; or false if this does not save a tenth.
func compress(buf, src []byte) ([]byte, bool) {
	if cap(buf) < s2.MaxEncodedLen(len(src)) {
		buf = make([]byte, s2.MaxEncodedLen(len(src)))
	}
	out := s2.Encode(buf[:cap(buf)], src)
	return out, len(out) <= len(src)-len(src)/10
}

// decompress returns the content of an s2 block. The size that the block claims is checked before memory is taken for it.
func decompress(src []byte, limit int) ([]byte, error) {
	n, err := s2.DecodedLen(src)
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, errOversize
	}
	return s2.Decode(nil, src)
}
