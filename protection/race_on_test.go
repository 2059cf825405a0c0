//go:build race

package protection

// RaceEnabled says whether the race detector is on, which makes everything some ten times slower.
const RaceEnabled = true
