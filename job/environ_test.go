package job

import "testing"

func TestValue(t *testing.T) {
	env := []string{"A=1", "AB=2", "A=3", "C="}
	for name, want := range map[string]string{"A": "3", "AB": "2", "C": "", "D": ""} {
		if got := Value(env, name); got != want {
			t.Errorf("value %s = %q, want %q", name, got, want)
		}
	}
}
