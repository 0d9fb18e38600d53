package feature_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	_ "remshell/feature"
	"remshell/launch/node"
	"remshell/launch/node/nodetest"
	"remshell/wire"
	"remshell/wire/wiretest"
)

// kinds returns the kinds of messages that features own.
func kinds(t *testing.T) (all []wire.Kind) {
	for _, k := range wire.Kinds() {
		if k.Example != nil {
			all = append(all, k)
		}
	}
	if len(all) == 0 {
		t.Fatal("no feature has a message: this test looks for them wrongly")
	}
	return all
}

// The messages of features keep the rules for all messages: they arrive as they were sent, no frame is read that is too short
// or too long, each field has a limit, and no frame takes too much memory.
func TestMessages(t *testing.T) {
	for _, k := range kinds(t) {
		t.Run(k.Name, func(t *testing.T) { wiretest.Check(t, k.Example(1)) })
	}
}

// No message of a feature gets through before the helper has greeted or after the end, nor one about running ranks before
// they are started. What only mpiexec sends never does. The feature's own test has the row of the other stages (nodetest).
func TestMessagesOutOfTime(t *testing.T) {
	for _, k := range kinds(t) {
		refused := nodetest.Stages[:1]
		switch {
		case k.Sender == wire.Launcher:
			refused = nodetest.Stages[:len(nodetest.Stages)-1]
		case k.Phase == wire.Running || k.Phase == wire.Ending:
			refused = nodetest.Stages[:4]
		}
		for _, stage := range refused {
			v, _ := nodetest.NewStage(t, stage)
			if got := nodetest.Judge(v, k.Example(nodetest.Own)); got == "ok" || got == "dropped" {
				t.Errorf("%s, %s: %s", k.Name, stage, got)
			}
		}
		v, clock := nodetest.NewStage(t, "left")
		if got := nodetest.Judge(v, k.Example(nodetest.Own)); got != "dropped" {
			t.Errorf("%s, after Bye: %s", k.Name, got)
		}
		*clock = clock.Add(nodetest.Tolerance + 1)
		if _, err := v.CheckMessage(k.Example(nodetest.Own)); !node.IsViolation(err) {
			t.Errorf("%s, long after Bye: %v", k.Name, err)
		}
	}
}

// Each message that a feature registers is handled somewhere in the feature's folder: by a function that is passed to Handle,
// or as the reply to a request.
func TestMessagesHaveOwners(t *testing.T) {
	folders, err := filepath.Glob("*")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, folder := range folders {
		registered, handled := messagesIn(t, folder)
		found += len(registered)
		for message := range registered {
			if !handled[message] {
				t.Errorf("nothing in %s handles %s", folder, message)
			}
		}
	}
	if found != len(kinds(t)) {
		t.Errorf("%d messages are found in the sources, and %d are registered", found, len(kinds(t)))
	}
}

// messagesIn returns the messages that the sources of a folder register, and those that they handle.
func messagesIn(t *testing.T, folder string) (registered, handled map[string]bool) {
	registered, handled = make(map[string]bool), make(map[string]bool)
	takes := make(map[string]string) // the type of the last parameter of each function
	var functions []string           // passed to Handle
	add := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			takes[n.Name.Name] = lastParameter(n.Type)
		case *ast.IndexExpr:
			switch nameOf(n.X) {
			case "wire.Register":
				registered[nameOf(n.Index)] = true
			case "wire.AnsweredBy":
				handled[nameOf(n.Index)] = true
			}
		case *ast.CallExpr:
			if name := nameOf(n.Fun); name != "launch.Handle" && name != "helper.Handle" && name != "reserve.Handle" {
				break
			}
			switch f := n.Args[len(n.Args)-1].(type) {
			case *ast.FuncLit:
				handled[lastParameter(f.Type)] = true
			case *ast.SelectorExpr:
				functions = append(functions, f.Sel.Name)
			case *ast.Ident:
				functions = append(functions, f.Name)
			}
		}
		return true
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, add)
	}
	for _, name := range functions {
		handled[takes[name]] = true
	}
	return registered, handled
}

// lastParameter returns the type of the last parameter of a function, or "".
func lastParameter(f *ast.FuncType) string {
	if list := f.Params.List; len(list) > 0 {
		return nameOf(list[len(list)-1].Type)
	}
	return ""
}

// nameOf returns the name of a type or of a function: M of *M and of M, and pkg.F of pkg.F.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return nameOf(e.X)
	case *ast.SelectorExpr:
		return nameOf(e.X) + "." + e.Sel.Name
	}
	return ""
}

// Each kind of setting has an example, and reaches the helpers.
func TestSettingsReachHelpers(t *testing.T) {
	sent := wire.ExampleSettings()
	if len(sent) == 0 {
		t.Fatal("no feature has a setting: this test looks for them wrongly")
	}
	for _, setting := range sent {
		m, err, _ := wiretest.Receive(wire.Encode(&wire.Prepare{Settings: []wire.Setting{setting}}), wire.Helper)
		if err != nil {
			t.Errorf("%+v: %v", setting, err)
			continue
		}
		if got := m.(*wire.Prepare).Settings; len(got) != 1 || !reflect.DeepEqual(got[0], setting) {
			t.Errorf("%+v came as %+v", setting, got)
		}
	}
}
