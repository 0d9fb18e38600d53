package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pure packages turn values into values; they may not reach the world, nor what reaches it.
var pure = []string{"helper/life", "timeline", "limit", "fault", "hostlist", "idset", "batch", "text", "gpu", "pin", "job", "sort", "psi", "plan", "plan/line", "plan/nodeset", "plan/region", "whatif", "config", "show", "mpifault", "doctor", "cli/aprun", "cli/option", "cli/record", "cli/request", "cli/saved", "launch/stdio/pattern", "launch/supervise", "launch/checkpoint", "launch/restart", "launch/words", "pmiserver/pmix/bfrops", "pmiserver/pmix/jobinfo", "pmiserver/pmix/message"}

var world = []string{"os", "net", "os/exec", "syscall", "log", "golang.org/x/sys/unix"}

// lower lists, for each package, the packages of this module it may import. The
// layers are drawn in doc/design.md.
var lower = map[string][]string{
	"fault":                {},
	"userfile":             {"nsswitch"},
	"subprocess":           {},
	"hostlist":             {"text"},
	"text":                 {},
	"timeline":             {},
	"gpu":                  {},
	"idset":                {},
	"pin":                  {"idset"},
	"pmiserver":            {"pmiserver/dialect", "pmiserver/fence", "pmiserver/kvs", "pmiserver/pmi1", "pmiserver/pmi2", "pmiserver/spawn", "pmiserver/transcript"},
	"pmiserver/pmi1":       {"pmiserver/dialect", "pmiserver/kvs", "pmiserver/spawn", "pmiserver/transcript"},
	"pmiserver/pmi2":       {"pmiserver/dialect", "pmiserver/kvs", "pmiserver/spawn"},
	"pmiserver/dialect":    {"pmiserver/kvs", "pmiserver/spawn", "pmiserver/transcript"},
	"pmiserver/spawn":      {"pmiserver/kvs", "pmiserver/transcript"},
	"pmiserver/kvs":        {},
	"pmiserver/client":     {},
	"pmiserver/fence":      {},
	"pmiserver/transcript": {},
	"pipe":                 {},
	"proc":                 {},
	"deadline":             {},
	"nsswitch":             {"subprocess"},
	"sshx":                 {"deadline", "nsswitch", "subprocess", "text"},
	"limit":                {},
	"plan/nodeset":         {"hostlist"},
	"plan/line":            {},
	"plan/region":          {"job", "text"},
	"mpifault":             {"job"},
	"job":                  {"batch", "gpu", "idset", "limit", "pin", "plan/nodeset"},
	"ledger":               {"job"},
	"sort":                 {"hostlist", "job"},
	"psi":                  {"hostlist", "idset", "job", "pin", "plan/nodeset", "sort"},
	"whatif":               {"gpu", "idset", "job", "pin", "plan", "plan/nodeset", "psi"},
	"config":               {"hostlist", "job", "limit", "plan/nodeset", "sort", "text"},
	"plan":                 {"fault", "gpu", "hostlist", "idset", "job", "pin", "plan/line", "plan/nodeset", "plan/region", "sort", "text"},
	"show":                 {"fault", "gpu", "hostlist", "idset", "job", "pin", "plan", "plan/nodeset", "sort", "text"},
	"doctor":               {"fault", "hostlist", "idset", "job", "mpifault", "pin", "plan", "plan/nodeset", "show", "text"},
	"batch":                {"fault", "pin", "text"},
	"wire":                 {"gpu", "job", "pin", "pipe", "pmiserver/spawn"},
	"reach":                {"batch", "deadline", "proc", "reach/callback", "sshx"},
	"reach/callback":       {},
	"helper":               {"batch", "config", "helper/checkup", "helper/claims", "helper/ipc", "helper/keeper", "helper/life", "helper/offer", "helper/probe", "helper/rank", "helper/sample", "helper/scratch", "helper/stage", "helper/status", "helper/uplink", "idset", "job", "ledger", "limit", "mpifault", "pin", "pipe", "pmiserver", "pmiserver/fence", "pmiserver/pmix", "pmiserver/pmix/jobinfo", "pmiserver/pmix/message", "pmiserver/transcript", "proc", "wire"},
	"helper/checkup":       {"config", "helper/offer", "helper/probe", "helper/rank", "job", "ledger", "nsswitch", "pin", "proc", "wire"},
	"helper/claims":        {"config", "gpu", "helper/probe", "helper/rank", "helper/status", "idset", "job", "ledger", "proc", "wire"},
	"helper/ipc":           {"job"},
	"helper/keeper":        {},
	"helper/life":          {"job"},
	"helper/offer":         {"job"},
	"helper/probe":         {"batch", "config", "gpu", "idset", "job", "limit", "nsswitch", "pin", "plan/nodeset", "proc"},
	"helper/sample":        {"job"},
	"helper/owndir":        {},
	"helper/scratch":       {"helper/owndir", "job"},
	"helper/uplink":        {"helper/rank", "hostlist", "job", "pmiserver/fence", "pmiserver/pmix", "pmiserver/pmix/message", "pmiserver/spawn", "wire"},
	"helper/stage":         {"helper/owndir", "helper/rank", "job", "wire"},
	"helper/status":        {"helper/owndir", "job", "proc"},
	"helper/rank":          {"batch", "gpu", "idset", "job", "limit", "pin", "proc"},
	"launch/node":          {"deadline", "fault", "job", "limit", "pin", "pmiserver/fence", "reach", "timeline", "wire"},
	"launch/reserve":       {"deadline", "fault", "gpu", "hostlist", "idset", "job", "launch/info", "launch/node", "launch/queue", "launch/restart", "limit", "pin", "plan", "plan/nodeset", "pmiserver/spawn", "text", "timeline", "wire"},
	"launch/info":          {"hostlist", "job", "pin", "plan/nodeset", "pmiserver/spawn"},
	"launch/queue":         {"fault", "hostlist", "job", "launch/node", "plan", "text", "wire"},
	"launch/checkpoint":    {"job", "text"},
	"launch/restart":       {"batch", "gpu", "hostlist", "job", "pin", "plan"},
	"launch/stdio":         {"fault", "idset", "job", "launch/stdio/pattern", "pipe", "userfile", "wire"},
	"launch/stdio/pattern": {},
	"launch/supervise":     {"batch", "hostlist", "idset", "job", "limit", "mpifault", "show", "text"},
	"launch/words":         {"idset", "job", "launch/supervise", "pin", "show", "text"},
	"launch":               {"batch", "fault", "gpu", "hostlist", "idset", "job", "launch/checkpoint", "launch/info", "launch/node", "launch/reserve", "launch/restart", "launch/stdio", "launch/supervise", "launch/words", "pin", "plan", "pmiserver", "pmiserver/fence", "pmiserver/spawn", "pmiserver/transcript", "show", "text", "timeline", "wire"},
	"cli/option":           {"batch", "fault", "gpu", "hostlist", "job", "launch/stdio/pattern", "limit", "pin", "show", "text"},
	"cli/request":          {"batch", "cli/option", "config", "fault", "gpu", "hostlist", "idset", "job", "launch/stdio/pattern", "limit", "pin", "plan", "plan/nodeset", "psi", "sort", "text", "whatif"},
	"cli/record":           {"hostlist", "job", "limit"},
	"cli/saved":            {"cli/option", "fault", "job", "launch/restart"},
	"cli/aprun":            {"fault"},
	"cli":                  {"batch", "cli/aprun", "cli/option", "cli/record", "cli/request", "cli/saved", "config", "doctor", "fault", "helper", "helper/checkup", "helper/keeper", "helper/offer", "helper/probe", "helper/rank", "hostlist", "job", "launch", "launch/node", "launch/reserve", "launch/restart", "launch/stdio", "limit", "nsswitch", "plan", "pmiserver", "psi", "reach", "reach/callback", "selftest", "show", "sshx", "subprocess", "text", "timeline", "userfile", "whatif"},
	"selftest":             {"pmiserver/client", "text"},
	".":                    {"cli"},

	"pmiserver/pmix":         {"idset", "pmiserver/fence", "pmiserver/pmix/bfrops", "pmiserver/pmix/jobinfo", "pmiserver/pmix/message", "pmiserver/spawn"},
	"pmiserver/pmix/bfrops":  {},
	"pmiserver/pmix/jobinfo": {"pmiserver/pmix/bfrops"},
	"pmiserver/pmix/message": {"pmiserver/pmix/bfrops"},
}

func TestImports(t *testing.T) {
	files, err := sources(".")
	if err != nil {
		t.Fatal(err)
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
			case inside && ranked && house(own):
				t.Errorf("%s: nothing of the product imports %s", file, own)
			case inside && ranked && !slices.Contains(allowed, own):
				t.Errorf("%s: package %s may not import %s", file, pkg, own)
			case slices.Contains(pure, pkg) && (slices.Contains(world, path) || inside && !slices.Contains(pure, own)):
				t.Errorf("%s: package %s is pure and may not import %s", file, pkg, path)
			}
		}
	}
}

// house reports whether a package is no room of the product: tools, and what tests use.
func house(pkg string) bool {
	return strings.HasPrefix(pkg, "tools/") || strings.HasPrefix(pkg, "test/")
}

// sources are the Go files below a folder, without what is built or only read by tests.
func sources(top string) (files []string, err error) {
	err = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{"bin", "build", "dist", "testdata", ".git"}, entry.Name()):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go"):
			files = append(files, path)
		}
		return nil
	})
	return files, err
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
	reasons, err := os.ReadFile("doc/adr/0002-modules.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("tools/*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "go.mod") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
			var module string
			switch {
			case len(fields) == 2 && strings.HasPrefix(fields[1], "v"):
				module = fields[0]
			case len(fields) == 2 && fields[0] == "tool":
				module = fields[1]
			default:
				continue // not a direct requirement
			}
			found++
			if !strings.Contains(string(reasons), "`"+module+"`") {
				t.Errorf("module %s of %s has no reason in doc/adr/0002-modules.md", module, file)
			}
		}
		if found == 0 {
			t.Errorf("no requirement found in %s: this test reads it wrongly", file)
		}
	}
}
