package redislimit_test

import (
	"os"
	"testing"

	"github.com/snowshed-go/snowshed/internal/testutil"
)

func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }
