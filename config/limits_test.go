package config

import (
	"maps"
	"strings"
	"testing"

	"remshell/limit"
)

func TestLimits(t *testing.T) {
	c, err := Load("f", "[limits]\nmem = \"2gb\"\nnofile = 64\n[class.long]\nlimits = { vmem = \"1kb\" }\n[class.default.limits]\n[[node]]\nname = \"a\"", nobody)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(c.Limits, limit.Bounds{limit.Mem: 2 << 30, limit.NoFile: 64}) || !maps.Equal(c.Classes["long"], limit.Bounds{limit.VMem: 1024}) || len(c.Classes) != 2 {
		t.Errorf("%v, %v", c.Limits, c.Classes)
	}
	for text, want := range map[string]string{
		"[limits]\nmem = \"2xb\"\n":         `f:2: mem: "2xb" is not a size`,
		"[limits]\n\nmemory = 1\n":          `f:3: unknown limit "memory"`,
		"[limits]\nmem = 1.5\n":             "f:2: mem: 1.5 is neither a text nor a number",
		"[limits]\nmem = -1\n":              `f:2: mem: "-1" is not a size`,
		"[class.a.limits]\n\nvmem = true\n": "f:3: vmem: true is neither a text nor a number",
		"[class.a]\nsort = \"proc\"\n":      `unknown key "sort"`,
		"limits = 3\n":                      "limits: cannot be a TOML integer",
	} {
		if _, err := Load("f", text+"[[node]]\nname = \"a\"", nobody); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
