package wire

import (
	"flag"
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"math/bits"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write doc/spec/wire.md again")

// chapters are the files that have messages, as the page tells of them.
var chapters = []struct{ file, title string }{
	{"greet.go", "Greeting"},
	{"queue.go", "The queue"},
	{"reserve.go", "Reserving"},
	{"prepare.go", ""}, // belongs to what is before it
	{"stage.go", "Staging"},
	{"run.go", "Running"},
	{"pmi.go", "PMI"},
	{"listing.go", "Other jobs"},
	{"exam.go", "Examining"},
}

// The page of the law is made of the table, the structs and the lists of their fields.
func TestThePageOfTheProtocol(t *testing.T) {
	const page = "../doc/spec/wire.md"
	want := newSpec(t).page()
	got, err := os.ReadFile(page)
	if *update {
		err = os.WriteFile(page, []byte(want), 0o644)
		got = []byte(want)
	}
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the package is (%v): go test ./wire -run TestThePageOfTheProtocol -update", page, err)
	}
}

// A spec is the package as its sources are.
type spec struct {
	t     *testing.T
	files map[string]*ast.File
	info  *types.Info
	vars  map[string]ast.Expr      // bounds with a name
	walks map[string]*ast.FuncDecl // lists of fields: of a type, or "codec." and a part
	parts map[string]string        // sections about parts, by name
	out   strings.Builder
}

func newSpec(t *testing.T) *spec {
	s := &spec{t: t, files: parsed(t), vars: make(map[string]ast.Expr), walks: make(map[string]*ast.FuncDecl), parts: make(map[string]string),
		info: &types.Info{Types: make(map[ast.Expr]types.TypeAndValue)}}
	lenient(constants{importer.ForCompiler(fileSet, "source", nil)}).Check("remshell/wire", fileSet, slices.Collect(maps.Values(s.files)), s.info)
	for _, f := range s.files {
		for _, d := range f.Decls {
			s.declare(d)
		}
	}
	return s
}

// lenient takes what it does not know for good.
func lenient(from types.Importer) *types.Config {
	return &types.Config{Importer: from, Error: func(error) {}}
}

// constants imports what has some that are used here; of all else it knows the name.
type constants struct{ source types.Importer }

func (c constants) Import(path string) (*types.Package, error) {
	switch path {
	case "math":
		return c.source.Import(path)
	case "remshell/job":
		packages, err := parser.ParseDir(fileSet, "../job", func(f os.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, 0)
		if err != nil {
			return nil, err
		}
		p, _ := lenient(c).Check(path, fileSet, slices.Collect(maps.Values(packages["job"].Files)), nil)
		return p, nil
	}
	p := types.NewPackage(path, path[strings.LastIndex(path, "/")+1:])
	p.MarkComplete()
	return p, nil
}

func (s *spec) declare(d ast.Decl) {
	switch d := d.(type) {
	case *ast.GenDecl:
		for _, v := range d.Specs {
			if v, ok := v.(*ast.ValueSpec); ok && len(v.Values) == 1 {
				s.vars[v.Names[0].Name] = v.Values[0]
			}
		}
	case *ast.FuncDecl:
		if d.Recv == nil {
			return
		}
		of := strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*")
		if d.Name.Name == "fields" {
			s.walks[of] = d
		} else if of == "codec" {
			s.walks["codec."+d.Name.Name] = d
		}
	}
}

// page is the whole of it.
func (s *spec) page() string {
	p := func(format string, args ...any) { fmt.Fprintf(&s.out, format, args...) }
	p("# The protocol between mpiexec and its helpers\n\nMade from package `wire` by its test `TestThePageOfTheProtocol`; change the package, not this page.\n\n")
	p("%s\n", strings.TrimSpace(text(s.files["wire.go"].Doc))[len("Package wire is "):])
	p("\nThe table of all, by number. The bound is that of the body, in bytes.\n\n| | message | from | phase | bound |\n|---|---|---|---|---|\n")
	for number, k := range table {
		if k.New != nil {
			p("| %d | %s | %s | %v | %s |\n", number, k.Name, from(k), k.When, amount(int64(k.Most)))
		}
	}
	for _, c := range chapters {
		if c.title != "" {
			p("\n## %s\n\n%s\n", c.title, strings.TrimSpace(text(introduction(s.files[c.file]))))
		}
		for _, d := range s.files[c.file].Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				s.message(g)
			}
		}
	}
	p("\n## Parts\n\nWhat several messages are made of, or one that is large.\n")
	for _, name := range slices.Sorted(maps.Keys(s.parts)) {
		p("\n### part %s\n\n%s", name, s.parts[name])
	}
	p("\n## Vectors\n\n| file | test |\n|---|---|\n%s", vectors)
	return s.out.String()
}

// vectors are the rows of what the tests of this page read.
const vectors = "| `wire/testdata/vectors.txt` | wire.TestVectors |\n"

func introduction(f *ast.File) *ast.CommentGroup {
	for _, g := range f.Comments {
		if strings.HasPrefix(g.List[0].Text, "/*") {
			return g
		}
	}
	return nil
}

func from(k Kind) string {
	switch k.From {
	case Launcher:
		return "mpiexec"
	case Helper:
		return "helper"
	}
	return "either"
}

// message is the section of one kind, if the declaration is that of one.
func (s *spec) message(g *ast.GenDecl) {
	name := g.Specs[0].(*ast.TypeSpec).Name.Name
	i := slices.IndexFunc(table[:], func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return
	}
	k := table[i]
	fmt.Fprintf(&s.out, "\n### %s\n\nNumber %d, from %s, %v, %s. %s\n%s", name, i,
		map[Side]string{Launcher: "mpiexec", Helper: "a helper", Either: "either side"}[k.From], k.When, sized(k), sentence(g.Doc), s.fields(s.walks[name], structOf(g)))
}

func sized(k Kind) string {
	if k.Most == 0 {
		return "empty"
	}
	return "at most " + amount(int64(k.Most)) + " bytes"
}

func sentence(g *ast.CommentGroup) string { return strings.Join(strings.Fields(g.Text()), " ") }

func structOf(g *ast.GenDecl) map[string]string { return comments(g.Specs[0].(*ast.TypeSpec).Type) }

// comments are what is said behind the fields of a struct.
func comments(of ast.Expr) map[string]string {
	said := make(map[string]string)
	if of, ok := of.(*ast.StructType); ok {
		for _, f := range of.Fields.List {
			for _, name := range f.Names {
				said[name.Name] = sentence(f.Comment)
			}
		}
	}
	return said
}

// fields is the table of what a list of fields walks.
func (s *spec) fields(walk *ast.FuncDecl, said map[string]string) string {
	var rows strings.Builder
	for _, statement := range walk.Body.List {
		call, ok := expression(statement).(*ast.CallExpr)
		if !ok {
			continue
		}
		if name, what := s.field(call); name != "" {
			if said := said[name]; said != "" {
				what += "; " + said
			}
			fmt.Fprintf(&rows, "| %s | %s |\n", name, what)
		}
	}
	if rows.Len() == 0 {
		return ""
	}
	return "\n| field | |\n|---|---|\n" + rows.String()
}

func expression(statement ast.Stmt) ast.Expr {
	if e, ok := statement.(*ast.ExprStmt); ok {
		return e.X
	}
	return nil
}

// field tells of one call of a codec: the field, and what it may be.
func (s *spec) field(call *ast.CallExpr) (name, what string) {
	if f, ok := call.Fun.(*ast.Ident); ok && f.Name == "list" {
		return path(call.Args[1]), fmt.Sprintf("at most %s of: %s", s.length(call.Args[2]), s.element(call.Args[3]))
	}
	f := call.Fun.(*ast.SelectorExpr)
	if f.Sel.Name == "fields" { // a struct of ours within another
		of := s.info.Types[f.X].Type.(*types.Named).Obj().Name()
		return path(f.X), s.part(of, of)
	}
	switch f.Sel.Name {
	case "sure", "different", "once", "fail":
		return "", ""
	}
	return path(call.Args[0]), s.value(f.Sel.Name, call.Args[1:])
}

// value tells what a method of the codec lets a field be.
func (s *spec) value(method string, args []ast.Expr) string {
	switch method {
	case "num", "num64", "small":
		return "number, " + s.span(args[0])
	case "flag":
		return "0 or 1"
	case "time":
		return "time in ns, 0 to " + amount(maxTime)
	case "moment":
		return "moment in ns since 1970, 0: none"
	case "load":
		return "three averages of load, as the bits of a double: -1 to " + amount(maxLoad)
	case "word":
		return utf8Text(amount(maxWord))
	case "sentence":
		return utf8Text(amount(maxSentence))
	case "prose":
		return utf8Text(s.most(args[0]))
	case "text":
		return "text, at most " + s.most(args[0]) + " bytes"
	case "bytes":
		return "at most " + s.most(args[0]) + " bytes"
	case "blob":
		return "bytes, as many as the frame may have"
	case "nums":
		return fmt.Sprintf("at most %s numbers, %s", s.most(args[0]), s.span(args[1]))
	case "texts":
		return fmt.Sprintf("at most %s texts of at most %s bytes", s.most(args[0]), s.most(args[1]))
	case "cpus":
		return "at most " + amount(maxCPUs) + " CPUs, 0 to " + amount(maxCPUs-1) + ", each once"
	}
	return s.part("codec."+method, method)
}

func utf8Text(most string) string { return "UTF-8 text, cut to at most " + most + " bytes" }

// element tells of what a list has.
func (s *spec) element(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return s.value(e.Sel.Name, nil)
	case *ast.FuncLit:
		_, what := s.field(expression(e.Body.List[0]).(*ast.CallExpr))
		return what
	}
	s.t.Fatalf("an element that is %T", e)
	return ""
}

// part notes that there shall be a section about a part, and refers to it.
func (s *spec) part(walk, name string) string {
	if _, known := s.parts[name]; !known {
		decl := s.walks[walk]
		if decl == nil {
			s.t.Fatalf("no fields of %s", walk)
		}
		s.parts[name] = ""
		text := "`" + types.ExprString(decl.Recv.List[0].Type)[1:] + "`"
		said := map[string]string{}
		if walk != name {
			text = "`" + types.ExprString(decl.Type.Params.List[0].Type)[1:] + "`"
		} else if g := s.declaration(name); g != nil {
			text, said = sentence(g.Doc), structOf(g)
		}
		s.parts[name] = text + "\n" + s.fields(decl, said)
	}
	return fmt.Sprintf("[part %s](#part-%s)", name, strings.ToLower(name))
}

func (s *spec) declaration(of string) *ast.GenDecl {
	for _, f := range s.files {
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE && g.Specs[0].(*ast.TypeSpec).Name.Name == of {
				return g
			}
		}
	}
	return nil
}

// path is the field that an argument of a codec names.
func path(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.UnaryExpr:
		return path(e.X)
	case *ast.CallExpr: // a conversion
		return path(e.Args[0])
	case *ast.SelectorExpr:
		if before := path(e.X); before != "" {
			return before + "." + e.Sel.Name
		}
		return e.Sel.Name
	}
	return ""
}

// elements are those of a composite literal, or of the variable that names one.
func (s *spec) elements(e ast.Expr) []ast.Expr {
	if name, ok := e.(*ast.Ident); ok {
		e = s.vars[name.Name]
	}
	return e.(*ast.CompositeLit).Elts
}

func (s *spec) span(e ast.Expr) string {
	of := s.elements(e)
	return s.constant(of[1]) + " to " + s.constant(of[2])
}

func (s *spec) length(e ast.Expr) string {
	of := s.elements(e)
	name, _ := strconv.Unquote(types.ExprString(of[0]))
	return s.constant(of[1]) + " " + name
}

// most is the most that a length lets there be, of bytes or of what a list has.
func (s *spec) most(e ast.Expr) string { return s.constant(s.elements(e)[1]) }

// constant is the value of an expression, or of what it is to be less by what has been used.
func (s *spec) constant(e ast.Expr) string {
	if v := s.info.Types[e].Value; v != nil {
		n, _ := constant.Int64Val(constant.ToInt(v))
		return amount(n)
	}
	if e, ok := e.(*ast.BinaryExpr); ok {
		return s.constant(e.X) + " together"
	}
	s.t.Fatalf("%s is no constant", types.ExprString(e))
	return ""
}

// amount is a number as people read it: powers of two from 2^12 on, and those around them.
func amount(n int64) string {
	switch {
	case n < 0:
		return "-" + strings.TrimPrefix(amount(-n), "-")
	case n < 1<<12 || n%1000 == 0:
		return strconv.FormatInt(n, 10)
	case n == 1<<63-1:
		return "2^63-1"
	case bits.OnesCount64(uint64(n)) == 1:
		return fmt.Sprintf("2^%d", bits.TrailingZeros64(uint64(n)))
	case bits.OnesCount64(uint64(n+1)) == 1:
		return fmt.Sprintf("2^%d-1", bits.TrailingZeros64(uint64(n+1)))
	}
	return strconv.FormatInt(n, 10)
}

// What travels is a field of the struct: no name of the page is out of the air.
func TestThePageNamesFields(t *testing.T) {
	s := newSpec(t)
	for _, k := range Kinds() {
		for _, statement := range s.walks[k.Name].Body.List {
			call, ok := expression(statement).(*ast.CallExpr)
			if !ok {
				t.Errorf("%s has fields that the page cannot tell of", k.Name)
				continue
			}
			name, _ := s.field(call)
			of := reflect.TypeOf(k.New()).Elem()
			for _, step := range strings.Split(name, ".") {
				f, is := of.FieldByName(step)
				if name != "" && !is {
					t.Errorf("%s has no %s", k.Name, name)
					break
				}
				of = f.Type
			}
		}
	}
}
