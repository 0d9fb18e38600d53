package config

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"remshell/limits"
)

func TestLimits(t *testing.T) {
	c, err := Load("f", "[limits]\nmem = \"2gb\"\nnofile = 64\n[class.long]\nlimits = { vmem = \"1kb\" }\n[class.default.limits]\n[[node]]\nname = \"a\"", nobody)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(c.Limits, limits.Map{limits.Mem: 2 << 30, limits.NoFile: 64}) || !maps.Equal(c.Classes["long"].Limits, limits.Map{limits.VMem: 1024}) || len(c.Classes) != 2 {
		t.Errorf("%v, %v", c.Limits, c.Classes)
	}
	for text, want := range map[string]string{
		"[limits]\nmem = \"2xb\"\n":         `f:2: mem: the value "2xb" is not valid; write a size`,
		"[limits]\n\nmemory = 1\n":          `f:3: unknown limit "memory"`,
		"[limits]\nmem = 1.5\n":             "f:2: mem: 1.5 is neither a string nor a number",
		"[limits]\nmem = -1\n":              `f:2: mem: the value "-1" is not valid; write a size`,
		"[class.a.limits]\n\nvmem = true\n": "f:3: vmem: true is neither a string nor a number",
		"limits = 3\n":                      "limits cannot be a TOML integer",
	} {
		if _, err := Load("f", text+"[[node]]\nname = \"a\"", nobody); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Both notations of classes give the same value.
func TestClasses(t *testing.T) {
	const keys = "limits = { mem = \"1gb\", walltime = 50 }\nmaxtime = \"1:00\"\nsort = \"load\"\nusers = [\"alice\"]\ngroups = 300\n"
	for _, text := range []string{"[class.a]\n" + keys + "[class.b]\nmaxtime = 7\n", "[[class]]\nname = \"a\"\n" + keys + "[[class]]\nname = \"b\"\n[class.limits]\nwalltime = 7\n"} {
		c, err := Load("f", "accounting_file = \"/a\"\n"+text+"[[node]]\nname = \"n\"", nobody)
		if err != nil {
			t.Fatal(err)
		}
		a, b := c.Classes["a"], c.Classes["b"]
		if fmt.Sprint(a.Limits, a.Sort, a.Users, a.Groups) != "map[mem:1073741824 walltime:50000000000]load[2000] [300]" || fmt.Sprint(b.Limits, b.Sort) != "map[walltime:7000000000]" || b.Users != nil || b.Groups != nil {
			t.Errorf("%s: %v, %v", text, a, b)
		}
		if a.Admits(7, []int{300}) || a.Admits(2000, []int{7}) || !a.Admits(2000, []int{7, 300}) || !a.Admits(0, nil) || !b.Admits(7, nil) || c.AccountingFile != "/a" {
			t.Errorf("%s: open to the wrong ones", text)
		}
	}
	for text, want := range map[string]string{
		"accounting_file = \"a\"\n": `f:1: accounting_file: "a" is not an absolute path`,
		"class = 3\n":               "f:1: class: 3 is not a table; write [class.NAME]",
		"[class]\na = 3\n":          "f:2: class a: 3 is not a table; write [class.a]",
		"[[class]]\nmaxtime = 3\n":  "f:1: the name of the class is missing",
		"[[class]]\nname = \"a\"\n\n[[class]]\nname = \"a\"\n":    "f:5: the class a is defined twice",
		"[class.a]\nsort = \"CPU\"\n":                             `f:2: sort: "CPU" is not an order; allowed: PROC, LOAD,`,
		"[class.a]\nmaxtime = \"x\"\n":                            `f:2: maxtime: "x" is not a time`,
		"[class.a]\nlimits = 3\n":                                 "f:2: limits: 3 is not a table",
		"[class.default]\nusers = [\"root\"]\n":                   `f:2: the class "default" cannot have users, because it applies to all jobs without a class; to restrict nodes, use the key users of [[node]]`,
		"[[class]]\nname = \"default\"\ngroups = [\"root\"]\n":    `f:3: the class "default" cannot have groups, because it applies to all jobs without a class; to restrict nodes, use the key groups of [[node]]`,
		"[class.a]\nusers = [{}]\n":                               `f:2: users: a table is neither a name nor a number`,
		"[class.a]\ncolour = 3\n":                                 `f:2: unknown key "colour" in a class; allowed: name, limits, sort, maxtime, users, groups`,
		"[[class]]\nname = \"a\"\n[class.limits]\n\nmemory = 3\n": `f:5: unknown limit "memory"`,
	} {
		if _, err := Load("f", text+"[[node]]\nname = \"a\"", nobody); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
