package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strings"
)

// A source is a Go file of the repository. It is no test.
type source struct {
	name string
	text []byte
	fset *token.FileSet
	file *ast.File
}

// forEachSource calls visit for every Go file of the repository. It leaves out tests and packages that
// only tests use.
func forEachSource(repo fs.FS, visit func(source)) error {
	return fs.WalkDir(repo, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch base := entry.Name(); {
			case name == ".":
			case strings.HasPrefix(base, "."), base == "testdata", name == "test", name == "build", isForTests(name):
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		s := source{name: name, fset: token.NewFileSet()}
		if s.text, err = fs.ReadFile(repo, name); err != nil {
			return err
		}
		if s.file, err = parser.ParseFile(s.fset, name, s.text, parser.ParseComments); err != nil {
			return err
		}
		visit(s)
		return nil
	})
}

// isForTests reports whether only tests of the package above use a package, such as launch/launchtest.
func isForTests(dir string) bool {
	return path.Base(dir) == path.Base(path.Dir(dir))+"test"
}

// sampleAt returns a sample with the file and line of a position.
func (s source) sampleAt(pos token.Pos, text string) sample {
	return sample{s.fset.Position(pos).String(), text}
}

// between returns the source between two positions.
func (s source) between(start, end token.Pos) string {
	return string(s.text[s.fset.Position(start).Offset:s.fset.Position(end).Offset])
}
