package offer

import (
	"testing"
	"time"
)

// Whatever a program or library holds, looking at it ends, and is bounded.
func FuzzClosure(f *testing.F) {
	f.Add(elfFile{Needed: []string{"libmpi.so.40", "libfuzz.so"}, RunPath: "$ORIGIN:$LIB"}.bytes(), "/a:;b", "liba.so:/x y")
	f.Add(elfFile{Static: true, Text: "PMI_FD"}.bytes(), "", "")
	f.Add([]byte("#!/bin/sh"), "", "")
	f.Fuzz(func(t *testing.T, program []byte, libraryPath, preload string) {
		d := world(map[string]string{"/a.out": string(program), "/usr/lib/libfuzz.so": string(program)})
		v := NewJudge(d, time.Now).Verdict("/a.out", Search{"/w", libraryPath, preload})
		if v.Offer == "" || v.Why == "" {
			t.Errorf("no verdict: %+v", v)
		}
	})
}

// A cache is never read past its end, and never has more than there is room for.
func FuzzParseCache(f *testing.F) {
	f.Add(cacheOf("liba.so", "/x/liba.so", "libb.so", "/b"))
	f.Add(cacheOf()[:cacheHead-1])
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, paths := range parseCache(text) {
			if len(name)+len(paths[0]) > 2*len(text) {
				t.Errorf("%q -> %q in %d bytes", name, paths, len(text))
			}
		}
	})
}
