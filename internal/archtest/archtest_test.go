// Package archtest keeps the packages of the module in their order: who may import whom, and what production code links.
package archtest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/internal/testutil"
)

const (
	module   = "github.com/snowshed-go/snowshed"
	internal = module + "/internal/"
	goRedis  = "github.com/redis/go-redis/v9"
)

// rule says what the non-test files of a package may import besides the standard library and internal packages.
type rule struct {
	// imports holds packages of this module by their path below the module, and others by import path. The latter
	// include what is below them.
	imports []string
	// testSupport is for suites that tests import: these may link testing and internal/assert, internal/testutil.
	testSupport bool
	// optional packages may be absent; the absence of any other is reported.
	optional bool
}

// rules knows every package outside internal/. It is the table of the architecture; .golangci.yml holds it as well.
var rules = map[string]rule{
	"observe":              {},
	"protection":           {imports: []string{"observe"}},
	"protection/httpguard": {imports: []string{"protection", "observe"}},
	"protection/redislimit": {
		imports: []string{"protection", "observe", goRedis},
	},
	"loader": {},
	"lock":   {imports: []string{"observe", "golang.org/x/sync/singleflight", goRedis}},
	"lock/locktest": {
		imports: []string{"lock", "observe", goRedis}, testSupport: true, optional: true,
	},
	"tiers": {imports: []string{
		"protection", "observe", goRedis, "github.com/dgraph-io/ristretto/v2",
		"google.golang.org/protobuf", "github.com/klauspost/compress", "github.com/cespare/xxhash/v2",
	}},
	"tiers/tierstest": {
		imports: []string{"tiers", "observe", goRedis}, testSupport: true, optional: true,
	},
	"dbguard": {imports: []string{"loader", "protection", "observe", "github.com/go-sql-driver/mysql"}},
	"cache":   {imports: []string{"loader", "lock", "tiers", "protection", "observe"}},
}

// Packages of internal/ share one rule: the standard library and each other. These two are for tests only.
var testSupport = []string{internal + "assert", internal + "testutil"}

// Production code does not link these, directly or through others.
var testOnly = append([]string{
	"testing", "go.uber.org/goleak", "github.com/alicebob/miniredis/v2", "pgregory.net/rapid", "github.com/stretchr/testify",
}, testSupport...)

// goPackage is the part of go list's answer that the rules look at.
type goPackage struct {
	ImportPath string
	Imports    []string // direct, non-test files only
	Deps       []string // all, transitively
	DepsErrors []struct{ Err string }
}

func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }

func TestArchitecture(t *testing.T) {
	packages := list(t)
	for _, p := range packages {
		for _, violation := range check(p) {
			t.Error(violation)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		if rules[name].optional {
			continue
		}
		t.Run(name, func(t *testing.T) {
			exists := func(p goPackage) bool { return p.ImportPath == module+"/"+name }
			if !slices.ContainsFunc(packages, exists) {
				testutil.Skip(t, "the module has no package "+name)
			}
		})
	}
}

// check gives one sentence for each import that breaks a rule.
func check(p goPackage) []string {
	r := rule{}
	name, ours := strings.CutPrefix(p.ImportPath, module+"/")
	if strings.HasPrefix(p.ImportPath, internal) {
		if slices.Contains(testSupport, p.ImportPath) {
			return nil
		}
	} else {
		var known bool
		if r, known = rules[name]; !ours || !known {
			return []string{fmt.Sprintf("package %s has no rule: add it to the table in internal/archtest and to .golangci.yml", p.ImportPath)}
		}
	}
	var violations []string
	for _, imported := range p.Imports {
		if !r.allows(imported) {
			violations = append(violations, fmt.Sprintf("package %s must not import %s", p.ImportPath, imported))
		}
	}
	if r.testSupport {
		return violations
	}
	for _, path := range testOnly {
		if slices.ContainsFunc(p.Deps, func(linked string) bool { return isOrBelow(linked, path) }) {
			violations = append(violations, fmt.Sprintf("package %s links %s, which is for tests only", p.ImportPath, path))
		}
	}
	return violations
}

func (r rule) allows(imported string) bool {
	host, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(host, ".") || strings.HasPrefix(imported, internal) {
		return true // the standard library has no dot in the first element of its paths
	}
	if name, ours := strings.CutPrefix(imported, module+"/"); ours {
		return slices.Contains(r.imports, name)
	}
	return slices.ContainsFunc(r.imports, func(path string) bool { return isOrBelow(imported, path) })
}

func isOrBelow(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// list asks the go command about all packages of the root module. It touches every directory of the module first: go test
// notes what a test looks at, and so does not answer from its cache after a change.
func list(t *testing.T) []goPackage {
	t.Helper()
	root, err := filepath.Abs("../..")
	assert.NoError(t, err)
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		return err
	})
	assert.NoError(t, err)

	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Deps,DepsErrors", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	assert.NoError(t, err, "go list: ", stderr.String())

	var packages []goPackage
	for decoder := json.NewDecoder(strings.NewReader(string(output))); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		assert.NoError(t, err)
		for _, e := range p.DepsErrors {
			t.Errorf("go list %s: %s", p.ImportPath, e.Err)
		}
		packages = append(packages, p)
	}
	self := func(p goPackage) bool { return p.ImportPath == internal+"archtest" }
	assert.True(t, slices.ContainsFunc(packages, self), "go list does not even know this package")
	slices.SortFunc(packages, func(a, b goPackage) int { return cmp.Compare(a.ImportPath, b.ImportPath) })
	return packages
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name    string
		pkg     string
		imports []string
		links   []string
		want    []string
	}{
		{"own row", "cache", []string{"context", internal + "clock", module + "/tiers"}, nil, nil},
		{"third party", "lock", []string{goRedis, goRedis + "/maintnotifications"}, nil, nil},
		{"codec", "tiers", []string{"google.golang.org/protobuf/proto"}, nil, nil},
		{
			"cache knows no database", "cache",
			[]string{module + "/dbguard"},
			nil,
			[]string{"package " + module + "/cache must not import " + module + "/dbguard"},
		},
		{
			"cache knows no driver", "cache",
			[]string{goRedis},
			nil,
			[]string{"package " + module + "/cache must not import " + goRedis},
		},
		{
			"a name that only begins alike", "tiers",
			[]string{"github.com/klauspost/compressor"},
			nil,
			[]string{"package " + module + "/tiers must not import github.com/klauspost/compressor"},
		},
		{
			"a package below an allowed one of ours", "protection",
			[]string{module + "/observe/live"},
			nil,
			[]string{"package " + module + "/protection must not import " + module + "/observe/live"},
		},
		{
			"internal knows nobody", "internal/clock",
			[]string{module + "/observe", "golang.org/x/sync/errgroup"},
			nil,
			[]string{
				"package " + module + "/internal/clock must not import " + module + "/observe",
				"package " + module + "/internal/clock must not import golang.org/x/sync/errgroup",
			},
		},
		{
			"no testing", "loader", nil,
			[]string{"fmt", "testing", internal + "assert"},
			[]string{
				"package " + module + "/loader links testing, which is for tests only",
				"package " + module + "/loader links " + internal + "assert, which is for tests only",
			},
		},
		{"test support links testing", "internal/testutil", []string{"go.uber.org/goleak"}, []string{"testing"}, nil},
		{"suites link testing", "tiers/tierstest", []string{"testing", module + "/tiers"}, []string{"testing"}, nil},
		{
			"unknown package", "extra", nil, nil,
			[]string{"package " + module + "/extra has no rule: add it to the table in internal/archtest and to .golangci.yml"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := check(goPackage{ImportPath: module + "/" + tt.pkg, Imports: tt.imports, Deps: tt.links})
			assert.Equal(t, got, tt.want)
		})
	}
}
