// Package bench is the root of a module that measures Snowshed beside its peers. The programs are in its directories, one
// per area: go run ./protection. Ratios travel between machines, absolute times do not.
package bench
