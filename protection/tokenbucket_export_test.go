package protection

// Position is all the state that a take can change.
func (b *TokenBucket) Position() int64 { return b.terms.Load().taken.Load() }
