package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strings"
)

// A source is a Go file of the repository that is not a test.
type source struct {
	name string
	text []byte
	fset *token.FileSet
	file *ast.File
}

// forEachSource calls visit for each Go file of the repository, except tests and packages that only tests use.
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

// isForTests reports whether the package in dir is used only by tests, such as launch/launchtest.
func isForTests(dir string) bool {
	return path.Base(dir) == path.Base(path.Dir(dir))+"test"
}

// sampleAt returns a sample that consists of text and of the file and line of pos.
func (s source) sampleAt(pos token.Pos, text string) sample {
	return sample{s.fset.Position(pos).String(), text}
}

// between returns the source text between two positions.
func (s source) between(start, end token.Pos) string {
	return string(s.text[s.fset.Position(start).Offset:s.fset.Position(end).Offset])
}
