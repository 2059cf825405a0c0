// Package loader says how a key becomes a value: the function types that a cache calls on a miss, middleware around
// them, and the words in which a loader speaks back: not found, "store it for so long", "do not store it".
package loader
