package job

import "testing"

func TestFindStagedFile(t *testing.T) {
	parcels := []StagedFile{{Name: "hello", Path: "/home/me/bin/hello"}, {Name: "in.dat", Path: "/data/in.dat"}}
	for program, want := range map[string]string{
		"hello":                 "hello", // before PATH
		"bin/hello":             "hello",
		"./bin/hello":           "hello",
		"../hello":              "", // /home/hello
		"/home/me/bin/hello":    "hello",
		"/home/me//bin/./hello": "hello",
		"/usr/bin/hello":        "",      // another program of the same name
		"./hello":               "hello", // from the second directory
		"in.dat":                "in.dat",
		"sh":                    "",
		"":                      "",
	} {
		p, _ := FindStagedFile(program, parcels, "/home/me", "/home/me/bin")
		if p.Name != want {
			t.Errorf("%q means %q, want %q", program, p.Name, want)
		}
	}
	if _, ok := FindStagedFile("./hello", parcels, ""); ok {
		t.Error("a relative path leads somewhere from a directory that is not known")
	}
}
