package pmidetect

import "testing"

// Examining any program or library ends, within the limits.
func FuzzExamineProgram(f *testing.F) {
	f.Add(elfFile{Needed: []string{"libmpi.so.40", "libfuzz.so"}, RunPath: "$ORIGIN:$LIB"}.bytes(), "/a:;b")
	f.Add(elfFile{Static: true, Text: "PMI_FD"}.bytes(), "")
	f.Add([]byte("#!/bin/sh"), "")
	f.Fuzz(func(t *testing.T, program []byte, libraryPath string) {
		d := world(map[string]string{"/a.out": string(program), "/usr/lib/libfuzz.so": string(program)})
		v := NewDetector(d).Detect("/a.out", Search{"/w", libraryPath})
		if v.Offer == "" || v.Why == "" {
			t.Errorf("no verdict: %+v", v)
		}
	})
}
