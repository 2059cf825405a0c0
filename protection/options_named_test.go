package protection_test

import (
	"strings"
	"testing"

	"github.com/snowshed-go/snowshed/internal/assert"
)

// named checks that an error is there and names what cannot be.
func named(t *testing.T, err error, what string) {
	t.Helper()
	assert.Error(t, err, what)
	assert.True(t, strings.Contains(err.Error(), what), err)
}
