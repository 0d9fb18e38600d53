package fence

import (
	"fmt"
	"testing"
)

// A fence has one text. Members.Group names the group only for a whole group.
func TestIDs(t *testing.T) {
	for text, group := range map[string]string{
		"k0/0":                  "k0",
		"job-1.x_y/12":          "job-1.x_y",
		"k0[0]/0":               "",
		"k0[0-15,32,40-41]/3":   "",
		"k0,k1[4]/0":            "",
		"k0[2],k1,k2[0-1,3]/77": "",
		"fence:k0/0":            "k0",
		"connect:k0[3],k1/2":    "",

		"construct.0123456789abcdef:k0/0": "k0",
		"destruct.0123456789abcdef:k0/1":  "k0",
	} {
		id, err := ParseID(text)
		if err != nil || id.String() != text || id.Members.Group() != group {
			t.Errorf("%s is read as %v of group %q, %v", text, id, id.Members.Group(), err)
		}
	}
	for _, text := range []string{
		"", "/", "/0", "k0", "k0/", "k0/-1", "k0/00", "k0/+1", "k0/x", "k0/99999999999999999999",
		",/0", "k0,/0", ",k0/0", "k0,k0/0", "k1,k0/0", "k0[1]k1/0", "[0]/0",
		":k0/0", "k0:k0/0", "fence:/0", "fence:fence:k0/0", "fence:k0,k1:k2/0", "Fence:k0/0",
		"construct:k0/0", "construct.:k0/0", "construct.0123456789abcde:k0/0", "construct.0123456789ABCDEF:k0/0", "construct.0123456789abcdefff:k0/0", "fence.0123456789abcdef:k0/0", ".0123456789abcdef:k0/0",
		"k0[/0", "k0[]/0", "k0]/0", "k0[a]/0", "k0[0-]/0", "k0[-1]/0", "k0[01]/0", "k0[3-3]/0", "k0[3-2]/0", "k0[0,1]/0", "k0[2,0]/0", "k0[0-4,4]/0", "k0[0][2]/0",
	} {
		if id, err := ParseID(text); err == nil {
			t.Errorf("%q is read as %v", text, id)
		}
	}
}

func TestGroupsOfMembers(t *testing.T) {
	for members, want := range map[Members]string{"k0": "[k0]", "k0[2],k1,k2[0-1,3]": "[k0 k1 k2]", "k1,k0": "[]"} {
		if got := fmt.Sprint(members.Groups()); got != want {
			t.Errorf("%s has %s, want %s", members, got, want)
		}
	}
}

// String must restore a parsed text, and the methods of Members must not fail.
func FuzzID(f *testing.F) {
	f.Add("k0/3")
	f.Add("k0[0-15,32],k1[4]/0")
	f.Add("connect:k0[0-15,32],k1[4]/0")
	f.Add(string(Construct.WithTag("x")) + ":k0/0")
	f.Add("k0[9223372036854775806-9223372036854775807,0]/0")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseID(text)
		if err != nil {
			return
		}
		if id.String() != text {
			t.Errorf("%q becomes %q", text, id)
		}
		h := NewCoordinator()
		h.AddGroup("k0", []int{7, 8}, []int{7, 8, 7})
		h.Join(7, id, nil)
		h.RankLeft("k0", 8, 1)
	})
}
