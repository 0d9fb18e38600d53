package main

import (
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pure packages turn values into values; they may not reach the world.
var pure = []string{"hostlist", "pin", "job", "sort", "plan"}

var world = []string{"os", "net", "os/exec", "syscall", "log", "golang.org/x/sys/unix"}

// lower lists, for each package, the packages of this module it may import. The
// layers are drawn in doc/design.md.
var lower = map[string][]string{
	"hostlist":          {},
	"pin":               {},
	"pmiserver":         {},
	"pmiserver/pmitest": {},
	"proc":              {},
	"sshx":              {},
	"sshx/sshtest":      {},
	"job":               {"pin"},
	"sort":              {"job"},
	"plan":              {"hostlist", "job", "pin", "sort"},
	"wire":              {"job", "pin"},
	"reach":             {"proc", "sshx"},
	"helper":            {"job", "pin", "pmiserver", "proc", "wire"},
	"launch":            {"hostlist", "job", "plan", "pmiserver", "wire"},
	"cli":               {"helper", "hostlist", "job", "launch", "pin", "reach", "sshx"},
	".":                 {"cli"},
}

// modules lists what we may depend on; the reasons are in doc/adr/0002-modules.md.
var modules = []string{
	"github.com/alecthomas/kong", "github.com/kevinburke/ssh_config", "github.com/rogpeppe/go-internal",
	"github.com/rs/zerolog", "golang.org/x/crypto", "golang.org/x/sys", "golang.org/x/term",
}

func TestImports(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.go", "*/*.go", "*/*/*.go"} {
		found, _ := filepath.Glob(pattern)
		files = append(files, found...)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		pkg := filepath.Dir(file)
		for _, spec := range f.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			own, inside := strings.CutPrefix(path, "remshell/")
			allowed, ranked := lower[pkg]
			switch {
			case path == "sort":
				t.Errorf("%s imports the standard sort; here sort means ours, use slices", file)
			case strings.HasSuffix(file, "_test.go"):
			case inside && ranked && !slices.Contains(allowed, own):
				t.Errorf("%s: package %s may not import %s", file, pkg, own)
			case slices.Contains(pure, pkg) && slices.Contains(world, path):
				t.Errorf("%s: package %s is pure and may not import %s", file, pkg, path)
			}
		}
	}
}

// Every package of the program has a place in the layers.
func TestEveryPackageIsRanked(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		own, inside := strings.CutPrefix(path, "remshell/")
		if _, ranked := lower[own]; inside && !ranked {
			t.Errorf("package %s has no place in the layers", own)
		}
	}
}

// No module arrives unnoticed.
func TestModules(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{if not (or .Main .Indirect)}}{{.Path}}{{end}}", "all").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if !slices.Contains(modules, path) {
			t.Errorf("module %s is not among those of doc/adr/0002-modules.md", path)
		}
	}
}
