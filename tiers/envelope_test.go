package tiers

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/snowshed-go/snowshed/internal/assert"
)

// golden are envelopes as they lie in Redis somewhere. Each file holds one in hex.
func golden() map[string]struct {
	h       header
	payload string
} {
	return map[string]struct {
		h       header
		payload string
	}{
		"value": {header{
			codec: codecJSON, fingerprint: 0xABCDEF, keyHash: 0x0123456789ABCDEF, generation: 7, number: 1<<63 + 5,
			life: 90 * time.Minute, ttl: time.Hour, age: 1234 * time.Millisecond, loadTime: 42 * time.Microsecond,
		}, `{"id":1}`},
		"not-found":  {header{flags: flagNotFound, keyHash: 1, life: 30 * time.Second, ttl: 30 * time.Second}, ""},
		"compressed": {header{flags: flagCompressed, codec: codecRaw, keyHash: 2, life: time.Second, ttl: time.Second}, "\x05\x10hello"},
		"empty":      {header{codec: 16, keyHash: 3, life: time.Millisecond}, ""},
	}
}

func TestEnvelopesOfV1StayReadable(t *testing.T) {
	for name, want := range golden() {
		text, err := os.ReadFile(filepath.Join("testdata", "wire", "v1", name+".hex"))
		assert.NoError(t, err)
		b, err := hex.DecodeString(strings.TrimSpace(string(text)))
		assert.NoError(t, err)
		h, payload, err := parseEnvelope(b)
		assert.NoError(t, err, name)
		assert.Equal(t, h, want.h, name)
		assert.Equal(t, string(payload), want.payload, name)
		assert.Equal(t, sealed(want.h, []byte(want.payload)), b, name, " written again")
	}
}

func drawHeader(t *rapid.T) (header, []byte) {
	ms := func(name string) time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(100*365*24*time.Hour/time.Millisecond)).Draw(t, name)) * time.Millisecond
	}
	h := header{
		flags: rapid.SampledFrom([]byte{0, flagCompressed, flagNotFound}).Draw(t, "flags"),
		codec: rapid.Byte().Draw(t, "codec"), fingerprint: rapid.Uint32Max(1<<24-1).Draw(t, "fingerprint"),
		keyHash: rapid.Uint64().Draw(t, "hash"), generation: rapid.Uint64().Draw(t, "generation"), number: rapid.Uint64().Draw(t, "number"),
		life: ms("life"), ttl: ms("ttl"), age: ms("age"), loadTime: ms("load") / 1000,
	}
	if h.flags == flagNotFound {
		return h, nil
	}
	return h, rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "payload")
}

func TestEnvelopeRoundTripsAndNoChangedByteGoesUnnoticed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, payload := drawHeader(t)
		b := sealed(h, payload)
		got, p, err := parseEnvelope(b)
		if err != nil || got != h || !bytes.Equal(p, payload) {
			t.Fatalf("got %+v %q %v, want %+v %q", got, p, err, h, payload)
		}
		i := rapid.IntRange(0, len(b)-1).Draw(t, "position")
		b[i] ^= rapid.ByteRange(1, 255).Draw(t, "change")
		if _, _, err := parseEnvelope(b); err == nil {
			t.Fatalf("byte %d changed and nobody noticed", i)
		}
	})
}

func TestEveryByteOfAnEnvelopeIsChecked(t *testing.T) {
	b := sealed(golden()["value"].h, []byte("payload"))
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			_, _, err := parseEnvelope(b)
			assert.Error(t, err, "byte ", i, " bit ", bit)
			b[i] ^= 1 << bit
		}
	}
	for n := range b {
		_, _, err := parseEnvelope(b[:n])
		assert.Error(t, err, "cut to ", n)
	}
	_, _, err := parseEnvelope(append(b, 0))
	assert.Error(t, err, "one byte more")
}

func TestSealedNonsenseIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(b []byte){
		"unknown flag":           func(b []byte) { b[3] |= 4 },
		"not-found with payload": func(b []byte) { b[3] = flagNotFound },
		"life beyond 2^53":       func(b []byte) { b[32] = 1 },
		"age overflows":          func(b []byte) { b[49] = 0x1f },
	} {
		b := sealed(golden()["value"].h, []byte("payload"))
		spoil(b)
		seal(b)
		_, _, err := parseEnvelope(b)
		assert.ErrorIs(t, err, errFields, name)
	}
	b := sealed(golden()["value"].h, nil)
	b[2] = 2
	seal(b)
	_, _, err := parseEnvelope(b)
	assert.ErrorIs(t, err, errVersion)
}

func FuzzParseEnvelope(f *testing.F) {
	for _, g := range golden() {
		f.Add(sealed(g.h, []byte(g.payload)))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, payload, err := parseEnvelope(b)
		if err == nil && !bytes.Equal(sealed(h, payload), b) {
			t.Fatal("what was read does not write the same bytes")
		}
		if len(b) >= headerSize { // and with a checksum that holds, so that the fields are reached
			b = bytes.Clone(b)
			seal(b)
			if h, payload, err := parseEnvelope(b); err == nil && !bytes.Equal(sealed(h, payload), b) {
				t.Fatal("what was read does not write the same bytes")
			}
		}
	})
}
