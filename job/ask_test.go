package job

import "testing"

// Who is obeyed (survive.md SV-25): nobody is by what he says of himself.
func TestWhoIsObeyed(t *testing.T) {
	for _, test := range []struct {
		asker, owner   int
		administrators []int
		want           Right
	}{
		{1000, 1000, nil, Owner},
		{1000, 1000, []int{1000}, Owner},
		{0, 1000, nil, Root},
		{0, 0, nil, Owner},
		{1001, 1000, []int{1001, 1002}, Administrator},
		{1002, 1000, []int{1001, 1002}, Administrator},
		{1003, 1000, []int{1001, 1002}, ""},
		{1003, 1000, nil, ""},
		{1003, 0, []int{1001}, ""},
		{1001, 0, []int{1001}, Administrator},
	} {
		if got, ok := Obeyed(test.asker, test.owner, test.administrators); got != test.want || ok != (test.want != "") {
			t.Errorf("%d by the job of %d, with administrators %v: %q, %v", test.asker, test.owner, test.administrators, got, ok)
		}
	}
}
