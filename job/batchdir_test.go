package job

import "testing"

// The path of the batch directory is translated wherever it occurs. Other paths stay.
func TestBatchDirTranslate(t *testing.T) {
	f := BatchDir{LocalPath: "/x/dir_9", NodePath: "/y/dir_42"}
	for text, want := range map[string]string{
		"/x/dir_9":                            "/y/dir_42",
		"/x/dir_9/":                           "/y/dir_42/",
		"/x/dir_9/in/put":                     "/y/dir_42/in/put",
		"TMPDIR=/x/dir_9":                     "TMPDIR=/y/dir_42",
		"PATH=/bin:/x/dir_9/bin:/x/dir_9":     "PATH=/bin:/y/dir_42/bin:/y/dir_42",
		"--in=/x/dir_9/a,/x/dir_9/b":          "--in=/y/dir_42/a,/y/dir_42/b",
		"cd '/x/dir_9'; ls /x/dir_9":          "cd '/y/dir_42'; ls /y/dir_42",
		"/x/dir_93/a /x/dir_9.old /x/dir_9-1": "/x/dir_93/a /x/dir_9.old /x/dir_9-1",
		"/mnt/x/dir_9":                        "/mnt/x/dir_9",
		"input":                               "input",
		"":                                    "",
	} {
		if got := f.Translate(text); got != want {
			t.Errorf("Rename(%q) = %q, want %q", text, got, want)
		}
	}
	if got := (BatchDir{}).Translate("/x"); got != "/x" {
		t.Errorf("without a directory /x becomes %q", got)
	}
}
