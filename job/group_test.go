package job

import "testing"

// GroupNumber reads back the number from the name of each group.
func TestGroupNames(t *testing.T) {
	id := ID("6b03c2a3-24557-c45e0c27")
	for _, number := range []int{0, 1, 42} {
		if name := id.GroupName(number); id.GroupNumber(name) != number {
			t.Errorf("group %d is %s, which is read as %d", number, name, id.GroupNumber(name))
		}
	}
	for _, name := range []string{"", "6b03c2a3-24557-c45e0c2", "other_1", string(id) + "_0", string(id) + "_01", string(id) + "_-1", string(id) + "_x", string(id) + "1"} {
		if n := id.GroupNumber(name); n != -1 {
			t.Errorf("%q is group %d", name, n)
		}
	}
}
