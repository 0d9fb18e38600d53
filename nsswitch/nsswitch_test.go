package nsswitch

import (
	"fmt"
	"strings"
	"testing"
)

func TestHosts(t *testing.T) {
	for text, want := range map[string]string{
		"": "[] ",
		"10.0.0.1  STREAM n1.example\n10.0.0.1  DGRAM  \n10.0.0.2 STREAM\n": "[10.0.0.1 10.0.0.2] n1.example",
		"fe80::1%lo STREAM pi1.local\nfe80::1%lo DGRAM\n":                   "[fe80::1%lo] pi1.local",
		"::ffff:10.0.0.1 STREAM n1.example\n":                               "[] n1.example",
		"what? no address\n\n":                                              "[] address",
	} {
		addrs, canonical := ParseHosts(text)
		if got := fmt.Sprint(addrs, " ", canonical); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestAccountOf(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/bin/bash\ntoor:x:0:0::/toor:/bin/sh\n# nobody:x:1:1::/:\nshort:x:5\nali:*:1000:1000:Ali,,:/home/ali:/bin/zsh"
	for uid, want := range map[int]string{0: "{root /root}", 1000: "{ali /home/ali}", 1: "{ }", 5: "{ }", -1: "{ }"} {
		if got := fmt.Sprint(ParseAccount(passwd, uid)); got != want {
			t.Errorf("%d: %s, want %s", uid, got, want)
		}
	}
}

// Whatever getent prints, a host is found only if it has an address, and no address is listed twice.
func FuzzHosts(f *testing.F) {
	f.Add("10.0.0.1  STREAM n1.example\n10.0.0.1  DGRAM  \n")
	f.Add("::ffff:10.0.0.1 STREAM n1\n\xff")
	f.Fuzz(func(t *testing.T, text string) {
		addrs, canonical := ParseHosts(text)
		if strings.ContainsAny(canonical, " \n\t") || len(addrs) > 0 && !strings.ContainsAny(text, ".:") {
			t.Errorf("%q: %q %v", text, canonical, addrs)
		}
		seen := map[string]bool{}
		for _, a := range addrs {
			if seen[a.String()] || a.Is4In6() {
				t.Errorf("%q: %v", text, addrs)
			}
			seen[a.String()] = true
		}
	})
}
