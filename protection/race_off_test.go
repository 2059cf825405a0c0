//go:build !race

package protection

const raceEnabled = false
