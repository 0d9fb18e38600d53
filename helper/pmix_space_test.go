//go:build linux

package helper

import (
	"strconv"
	"strings"
	"testing"

	"remshell/job"
	"remshell/wire"
)

// Open MPI 5.0 identifies a namespace by 32 bits: the upper half is a hash of the part before the last @, the lower
// half is the number after it. Two groups of a job must never get the same one.
func TestNamespacesOfAJobHaveNumbersOfTheirOwn(t *testing.T) {
	number := func(namespace string) uint32 {
		name, behind := namespace, ""
		if at := strings.LastIndexByte(namespace, '@'); at >= 0 {
			name, behind = namespace[:at], namespace[at+1:]
		}
		var hash uint32 // Jenkins's one-at-a-time
		for _, c := range []byte(name) {
			hash += uint32(c)
			hash += hash << 10
			hash ^= hash >> 6
		}
		hash += hash << 3
		hash ^= hash >> 11
		hash += hash << 15
		local, _ := strconv.Atoi(behind)
		return (hash>>16^hash)<<16 | uint32(local)&0xffff
	}
	m := &wire.Prepare{Job: "j", PMI: wire.PMISetup{Token: "0123456789abcdef"}}
	of := make(map[uint32]string)
	for group := range 1 << 10 {
		space := groupNamespace(m, job.ID("j").GroupName(group))
		if other := of[number(space)]; other != "" {
			t.Fatalf("%s and %s are both %#x", other, space, number(space))
		}
		of[number(space)] = space
	}
}
