package cli

import "testing"

// Options, variables and the terminal decide about colour in this order (DIAG-8).
func TestColoured(t *testing.T) {
	for _, test := range []struct {
		when     string
		env      map[string]string
		terminal bool
		want     bool
	}{
		{"", nil, true, true},
		{"auto", nil, true, true},
		{"", nil, false, false},
		{"never", nil, true, false},
		{"always", nil, false, true},
		{"", map[string]string{"TERM": "dumb"}, true, false},
		{"always", map[string]string{"TERM": "dumb"}, true, true},
		{"", map[string]string{"CLICOLOR_FORCE": "1"}, false, true},
		{"", map[string]string{"CLICOLOR_FORCE": "0"}, false, false},
		{"never", map[string]string{"CLICOLOR_FORCE": "1"}, true, false},
		{"always", map[string]string{"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, true, false},
		{"", map[string]string{"NO_COLOR": ""}, true, true},
	} {
		got := useColor(test.when, func(name string) string { return test.env[name] }, test.terminal)
		if got != test.want {
			t.Errorf("%q, %v, terminal %v: %v", test.when, test.env, test.terminal, got)
		}
	}
}
