package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var glossaryRow = regexp.MustCompile(`(?m)^\| ([A-Za-z-]+) \| .+ \|$`)

// One word, one thing: a name that a package gives to a type of its own is no other package's,
// unless the glossary of doc/design.md says what it means everywhere.
func TestGlossary(t *testing.T) {
	_, rest, _ := strings.Cut(read(t, "doc/design.md"), "\n## Words\n")
	table, _, _ := strings.Cut(rest, "\n## ")
	listed := make(map[string]bool)
	for _, row := range glossaryRow.FindAllStringSubmatch(table, -1) {
		listed[row[1]] = true
	}
	if len(listed) < 10 {
		t.Fatalf("%d words found in doc/design.md: this test reads it wrongly", len(listed))
	}
	files, err := sources(".")
	if err != nil {
		t.Fatal(err)
	}
	declared := make(map[string]map[string]bool) // type name -> packages
	for _, file := range files {
		if pkg := filepath.Dir(file); !strings.HasSuffix(file, "_test.go") && !house(pkg) {
			for _, name := range ownTypes(t, file) {
				if declared[name] == nil {
					declared[name] = make(map[string]bool)
				}
				declared[name][pkg] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		if packages := slices.Sorted(maps.Keys(declared[name])); len(packages) > 1 && !listed[name] {
			t.Errorf("%s is a type of %s: give each thing its word, or the word a row of doc/design.md", name, strings.Join(packages, ", "))
		}
	}
}

// ownTypes are the unexported types that a file declares for its whole package.
func ownTypes(t *testing.T, file string) (names []string) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range f.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			if named, ok := spec.(*ast.TypeSpec); ok && !named.Name.IsExported() {
				names = append(names, named.Name.Name)
			}
		}
	}
	return names
}
