package wire

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// The table has the right row for the messages of each kind.
func TestTable(t *testing.T) {
	for number, k := range table {
		if k.New == nil {
			continue
		}
		m := k.New()
		if int(NumberOf(m)) != number || NameOf(m) != k.Name || reflect.TypeOf(m).Elem().Name() != k.Name {
			t.Errorf("row %d, %s, makes %T of kind %d", number, k.Name, m, NumberOf(m))
		}
		if k.Sender < Launcher || k.Sender > Either {
			t.Errorf("%s comes from nobody", k.Name)
		}
		if k.Phase < Greeting || k.Phase > Always {
			t.Errorf("%s comes at no time", k.Name)
		}
		if empty := reflect.TypeOf(m).Elem().Size() == 0; empty != (k.MaxBody == 0) {
			t.Errorf("%s has no bound, or needs none: %d", k.Name, k.MaxBody)
		}
	}
}

// arrow matches a line of a drawing: an arrowhead at the left, the message, an arrowhead at the right.
var arrow = regexp.MustCompile(`(?m)^\t   \| (<-*)? ?(.*?\S) ?(-*>)?(?:  .*)?$`)

// Each kind is in a drawing, with its direction, unless it is a feature's. Every message in a drawing is a kind.
func TestEveryKindIsDrawn(t *testing.T) {
	drawn := make(map[string]Side)
	for _, f := range parsed(t) {
		for _, group := range f.Comments {
			for _, line := range arrow.FindAllStringSubmatch(text(group), -1) {
				from := map[[2]bool]Side{{true, false}: Helper, {false, true}: Launcher, {true, true}: Either}[[2]bool{line[1] != "", line[3] != ""}]
				for _, name := range regexp.MustCompile(`\b[A-Z]\w+`).FindAllString(line[2], -1) {
					if before, is := drawn[name]; is && before != from {
						from = Either
					}
					drawn[name] = from
				}
			}
		}
	}
	for _, k := range Kinds() {
		if k.Example == nil && drawn[k.Name] != k.Sender {
			t.Errorf("%s is from %d, and drawn from %d", k.Name, k.Sender, drawn[k.Name])
		}
		delete(drawn, k.Name)
	}
	for name := range drawn {
		t.Errorf("%s is drawn, and not in the table", name)
	}
}

var fileSet = token.NewFileSet()

// parsed returns the parsed files of the package, without tests, by name.
func parsed(t *testing.T) map[string]*ast.File {
	packages, err := parser.ParseDir(fileSet, ".", func(f os.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return packages["wire"].Files
}

// text returns the text of a comment, with its tabs.
func text(group *ast.CommentGroup) string {
	var lines []string
	for _, c := range group.List {
		line := strings.TrimPrefix(c.Text, "//")
		line = strings.TrimSuffix(strings.TrimPrefix(line, "/*\n"), "*/")
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
