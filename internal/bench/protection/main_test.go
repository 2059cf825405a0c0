package main

import "testing"

// BenchmarkProtection runs each contestant by itself, for profiles: make bench-protection compares them.
func BenchmarkProtection(b *testing.B) {
	for _, c := range contestants() {
		b.Run(c.Name, func(b *testing.B) {
			work, done := c.New()
			if done != nil {
				defer done()
			}
			b.ReportAllocs()
			b.ResetTimer()
			work(b.N)
		})
	}
}

func TestRatiosNameContestants(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, c := range contestants() {
		if known[c.Name] {
			t.Error("two are named ", c.Name)
		}
		known[c.Name] = true
	}
	for _, pair := range ratios() {
		if !known[pair[0]] || !known[pair[1]] {
			t.Error("nobody is named so: ", pair)
		}
	}
}
