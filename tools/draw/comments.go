package main

import (
	"go/ast"
	"io/fs"
	"strings"
)

// collectComments returns the doc comments of packages and declarations. The first line of the declaration follows
// each comment.
func collectComments(repo fs.FS) (found []sample, err error) {
	err = forEachSource(repo, func(s source) {
		add := func(doc *ast.CommentGroup, declared ast.Node) {
			if doc == nil || strings.TrimSpace(doc.Text()) == "" {
				return
			}
			line, _, _ := strings.Cut(s.between(declared.Pos(), declared.End()), "\n")
			found = append(found, s.sampleAt(doc.Pos(), s.between(doc.Pos(), doc.End())+"\n"+line))
		}
		if s.file.Doc != nil {
			found = append(found, s.sampleAt(s.file.Doc.Pos(), s.between(s.file.Doc.Pos(), s.file.Name.End())))
		}
		for _, decl := range s.file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				line := *d
				line.Doc = nil
				add(d.Doc, &line)
			case *ast.GenDecl:
				line := *d
				line.Doc = nil
				add(d.Doc, &line)
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						add(spec.Doc, spec)
					case *ast.ValueSpec:
						add(spec.Doc, spec)
					}
				}
			}
		}
	})
	return found, err
}
