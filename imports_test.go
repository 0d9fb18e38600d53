package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// purePackages only turn values into values. They may not import packages that do input or output.
var purePackages = []string{"helper/lifecycle", "trace", "limits", "usererr", "hostlist", "idset", "batch", "text", "gpu", "pin", "job", "job/column", "job/turns", "sort", "psi", "plan", "plan/line", "plan/nodeset", "plan/region", "simulate", "config", "format", "mpifault", "doctor", "stack", "stack/python", "feature/stacks/tree", "cli/aprun", "cli/option", "cli/record", "cli/request", "cli/saved", "launch/stdio/pattern", "launch/supervise", "launch/hold", "launch/control", "feature/checkpoint/machine", "feature/hang/machine", "launch/restart", "pmiserver/pmix/bfrops", "pmiserver/pmix/jobinfo", "pmiserver/pmix/message"}

var impureImports = []string{"os", "net", "os/exec", "syscall", "log", "golang.org/x/sys/unix"}

// allowedImports lists, for each package, the packages of this module that it may import. doc/design.md draws the
// layers.
var allowedImports = map[string][]string{
	"usererr":                    {},
	"userfile":                   {"nsswitch"},
	"subprocess":                 {},
	"hostlist":                   {"text"},
	"text":                       {},
	"trace":                      {},
	"gpu":                        {},
	"idset":                      {},
	"pin":                        {"idset"},
	"pmiserver":                  {"pmiserver/pmiversion", "pmiserver/fence", "pmiserver/kvs", "pmiserver/pmi1", "pmiserver/pmi2", "pmiserver/spawn", "pmiserver/transcript"},
	"pmiserver/pmi1":             {"pmiserver/pmiversion", "pmiserver/kvs", "pmiserver/spawn", "pmiserver/transcript"},
	"pmiserver/pmi2":             {"pmiserver/pmiversion", "pmiserver/kvs", "pmiserver/spawn"},
	"pmiserver/pmiversion":       {"pmiserver/kvs", "pmiserver/spawn", "pmiserver/transcript"},
	"pmiserver/spawn":            {"pmiserver/kvs", "pmiserver/transcript"},
	"pmiserver/kvs":              {},
	"pmiserver/client":           {},
	"pmiserver/fence":            {},
	"pmiserver/transcript":       {},
	"pipe":                       {},
	"proc":                       {},
	"stack":                      {},
	"stack/python":               {"stack"},
	"stack/trace":                {"stack", "stack/python"},
	"deadline":                   {},
	"nsswitch":                   {"subprocess"},
	"sshx":                       {"deadline", "nsswitch", "subprocess", "text"},
	"limits":                     {},
	"plan/nodeset":               {"hostlist"},
	"plan/line":                  {},
	"plan/region":                {"job", "text"},
	"mpifault":                   {"job"},
	"job":                        {"batch", "gpu", "idset", "limits", "pin", "plan/nodeset", "text"},
	"job/column":                 {"job", "text"},
	"job/turns":                  {"job", "text"},
	"ledger":                     {"idset", "job"},
	"sort":                       {"hostlist", "job"},
	"psi":                        {"hostlist", "idset", "job", "pin", "plan/nodeset", "sort"},
	"simulate":                   {"gpu", "idset", "job", "job/turns", "pin", "plan", "plan/nodeset", "psi"},
	"config":                     {"hostlist", "job", "limits", "plan/nodeset", "sort", "text"},
	"plan":                       {"usererr", "gpu", "hostlist", "idset", "job", "pin", "plan/line", "plan/nodeset", "plan/region", "sort", "text"},
	"format":                     {"usererr", "gpu", "hostlist", "idset", "job", "job/column", "job/turns", "pin", "plan", "plan/nodeset", "sort", "text"},
	"doctor":                     {"usererr", "hostlist", "idset", "job", "mpifault", "pin", "plan", "plan/nodeset", "format", "text"},
	"batch":                      {"usererr", "pin", "text"},
	"wire":                       {"gpu", "job", "job/column", "pin", "pipe", "pmiserver/spawn"},
	"transport":                  {"batch", "deadline", "proc", "transport/dialback", "sshx"},
	"transport/dialback":         {},
	"helper":                     {"batch", "helper/diagnose", "helper/claims", "helper/sysvipc", "helper/reaper", "helper/lifecycle", "helper/pmidetect", "helper/probe", "helper/rank", "helper/sessiondir", "helper/rpc", "idset", "job", "ledger", "limits", "mpifault", "pin", "pipe", "pmiserver", "pmiserver/fence", "pmiserver/pmix", "pmiserver/pmix/jobinfo", "pmiserver/pmix/message", "pmiserver/spawn", "pmiserver/transcript", "proc", "wire"},
	"helper/diagnose":            {"helper/pmidetect", "helper/probe", "helper/rank", "job", "ledger", "nsswitch", "pin", "proc", "wire"},
	"helper/claims":              {"config", "gpu", "helper/probe", "helper/rank", "idset", "job", "ledger", "proc", "wire"},
	"helper/sysvipc":             {"job"},
	"helper/reaper":              {},
	"helper/lifecycle":           {"job"},
	"helper/pmidetect":           {"job"},
	"helper/probe":               {"batch", "config", "gpu", "idset", "job", "job/column", "limits", "nsswitch", "pin", "plan/nodeset", "proc"},
	"helper/owndir":              {},
	"helper/sessiondir":          {"helper/owndir", "job"},
	"helper/rpc":                 {"pmiserver/fence", "wire"},
	"helper/rank":                {"batch", "gpu", "idset", "job", "limits", "pin", "proc"},
	"launch/node":                {"deadline", "usererr", "job", "pin", "pmiserver/fence", "transport", "trace", "wire"},
	"launch/reserve":             {"deadline", "usererr", "gpu", "hostlist", "idset", "job", "launch/info", "launch/node", "launch/queue", "launch/restart", "limits", "pin", "plan", "plan/nodeset", "pmiserver/spawn", "text", "trace", "wire"},
	"launch/info":                {"hostlist", "job", "pin", "plan/nodeset", "pmiserver/spawn"},
	"launch/queue":               {"usererr", "hostlist", "job", "launch/node", "plan", "text", "wire"},
	"feature/checkpoint/machine": {"job", "text"},
	"launch/control":             {"job", "text"},
	"launch/hold":                {"job"},
	"launch/restart":             {"batch", "gpu", "hostlist", "job", "pin", "plan"},
	"launch/stdio":               {"usererr", "idset", "job", "launch/stdio/pattern", "pipe", "userfile", "wire"},
	"launch/stdio/pattern":       {},
	"launch/supervise":           {"batch", "hostlist", "idset", "job", "limits", "mpifault", "format", "text"},
	"launch":                     {"batch", "usererr", "gpu", "hostlist", "idset", "job", "launch/control", "launch/hold", "launch/info", "launch/node", "launch/reserve", "launch/restart", "launch/stdio", "launch/supervise", "limits", "pin", "plan", "pmiserver", "pmiserver/fence", "pmiserver/spawn", "pmiserver/transcript", "format", "text", "trace", "wire"},
	"cli/option":                 {"batch", "usererr", "gpu", "hostlist", "job", "launch/stdio/pattern", "pin", "format", "text"},
	"cli/request":                {"batch", "cli/option", "config", "usererr", "gpu", "hostlist", "idset", "job", "launch/stdio/pattern", "limits", "pin", "plan", "plan/nodeset", "psi", "sort", "text", "simulate"},
	"cli/record":                 {"hostlist", "job", "limits"},
	"cli/saved":                  {"cli/option", "usererr", "job", "launch/restart"},
	"cli/aprun":                  {"usererr"},
	"cli/setup":                  {"cli/option", "cli/record", "format", "job", "launch", "launch/reserve", "limits", "wire"},
	"feature":                    {},
	"cli":                        {"batch", "feature", "cli/aprun", "cli/option", "cli/record", "cli/request", "cli/saved", "cli/setup", "config", "doctor", "usererr", "helper", "helper/diagnose", "helper/reaper", "helper/pmidetect", "helper/probe", "helper/rank", "hostlist", "job", "launch", "launch/node", "launch/reserve", "launch/restart", "launch/stdio", "limits", "nsswitch", "plan", "pmiserver", "psi", "transport", "transport/dialback", "selftest", "format", "sshx", "subprocess", "text", "trace", "userfile", "simulate"},
	"selftest":                   {"pmiserver/client", "text"},
	".":                          {"cli"},

	"pmiserver/pmix":         {"idset", "pmiserver/fence", "pmiserver/pmix/bfrops", "pmiserver/pmix/jobinfo", "pmiserver/pmix/message", "pmiserver/spawn"},
	"pmiserver/pmix/bfrops":  {},
	"pmiserver/pmix/jobinfo": {"pmiserver/pmix/bfrops"},
	"pmiserver/pmix/message": {"pmiserver/pmix/bfrops"},
}

func TestImports(t *testing.T) {
	files, err := sourceFiles(".")
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
			allowed, ranked := allowedImports[pkg]
			if isFeature(pkg) && !strings.HasSuffix(file, "_test.go") {
				ranked = false // TestFeaturesStandAlone has the rule for features
			}
			switch {
			case path == "sort":
				t.Errorf("%s imports the standard sort; here sort means ours, use slices", file)
			case strings.HasSuffix(file, "_test.go"):
			case inside && isTestOnly(own) && !isTestOnly(pkg):
				t.Errorf("%s: nothing of the product imports %s", file, own)
			case inside && ranked && !slices.Contains(allowed, own) && !(pkg == "feature" && isFeature(own)):
				t.Errorf("%s: package %s may not import %s", file, pkg, own)
			case slices.Contains(purePackages, pkg) && (slices.Contains(impureImports, path) || inside && !slices.Contains(purePackages, own)):
				t.Errorf("%s: package %s is pure and may not import %s", file, pkg, path)
			}
		}
	}
}

// isFeature reports whether a package belongs to one feature.
func isFeature(pkg string) bool { return strings.HasPrefix(pkg, "feature/") }

// Only the list of features imports features, and only the front ends import the list: the core does not know what
// features there are, and no feature knows another. So each can be read, and removed, alone. Packages that serve a feature
// stand below its own.
func TestFeaturesStandAlone(t *testing.T) {
	files, err := sourceFiles(".")
	if err != nil {
		t.Fatal(err)
	}
	folder := func(pkg string) string { return strings.Join(strings.SplitN(pkg, "/", 3)[:2], "/") }
	seen := 0
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		pkg := filepath.Dir(file)
		for _, spec := range f.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			own, _ := strings.CutPrefix(path, "remshell/")
			switch {
			case isFeature(own) && pkg == "feature":
				seen++
			case isFeature(own) && (!isFeature(pkg) || folder(pkg) != folder(own)):
				t.Errorf("%s imports the feature %s", file, own)
			case own == "feature" && pkg != "cli" && !isTestOnly(pkg) && !strings.HasSuffix(file, "_test.go"):
				t.Errorf("%s imports the list of features", file)
			case isFeature(pkg) && (own == "cli" || strings.HasPrefix(own, "tools/")):
				t.Errorf("%s: a feature may not import %s", file, own)
			}
		}
	}
	if seen == 0 {
		t.Error("package feature imports no feature: this test reads it wrongly")
	}
}

// isTestOnly reports whether a package is not part of the product: tools, and packages for tests, such as
// launch/launchtest.
func isTestOnly(pkg string) bool {
	return strings.HasPrefix(pkg, "tools/") || strings.HasPrefix(pkg, "test/") || path.Base(pkg) == path.Base(path.Dir(pkg))+"test"
}

// sourceFiles returns the Go files below a directory, except for those in testdata and what is built.
func sourceFiles(top string) (files []string, err error) {
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

// Each package of the program is in allowedImports.
func TestEveryPackageIsRanked(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		own, inside := strings.CutPrefix(path, "remshell/")
		if _, ranked := allowedImports[own]; inside && !ranked && !isFeature(own) {
			t.Errorf("package %s has no place in the layers", own)
		}
	}
}

// The direct dependencies of the module are those listed here.
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
