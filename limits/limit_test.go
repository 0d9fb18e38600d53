package limits

import (
	"maps"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	const second = int64(time.Second)
	for text, want := range map[string]Map{
		"vmem=30mb":                 {VMem: 31457280},
		"mem=2gb,cput=90":           {Mem: 2 << 30, CPUTime: 90 * second},
		"MEM=2GB":                   {Mem: 2 << 30},
		"mem=1000":                  {Mem: 1000},
		"mem=1000b":                 {Mem: 1000},
		"mem=3k,hmem=3m,pmem=3t":    {Mem: 3 << 10, HostMem: 3 << 20, RankMem: 3 << 40},
		"mem=2w,hmem=2kw,hvmem=2gw": {Mem: 16, HostMem: 16 << 10, HostVMem: 16 << 30},
		"mem=2mb,mem=1mb":           {Mem: 1 << 20},
		"walltime=1:30:00":          {WallTime: 5400 * second},
		"walltime=10:00":            {WallTime: 600 * second},
		"walltime=0.5":              {WallTime: second / 2},
		"walltime=1d2h3m4s":         {WallTime: 93784 * second},
		"walltime=90:90":            {WallTime: 5490 * second},
		"nofile=64,core=0":          {NoFile: 64, Core: 0},
		"core=unlimited":            {Core: Unlimited},
		"stack=8mb , nproc = 100":   {Stack: 8 << 20, NProc: 100},
		"mem=1152921504606846976":   {Mem: 1 << 60},
	} {
		if got, err := Parse(text); err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"memory=1":                `unknown limit "memory"; allowed: core, cput, file, `,
		"mem=30xb":                `mem: the value "30xb" is not valid; write a size`,
		"mem":                     `"mem" is not NAME=VALUE`,
		"":                        `"" is not NAME=VALUE`,
		"mem=":                    `mem: the value "" is not valid; write a size`,
		"mem=-1":                  `mem: the value "-1" is not valid; write a size`,
		"mem=+1":                  `mem: the value "+1" is not valid; write a size`,
		"mem=1kk":                 `write a size`,
		"mem=1tw":                 `write a size`,
		"mem=1.5gb":               `write a size`,
		"mem=unlimited":           `mem: the value "unlimited" is not valid; write a size`,
		"mem=1152921504606846977": `write a size`,
		"mem=9999999t":            `write a size`,
		"walltime=0":              `walltime: the value "0" is not valid; write a time`,
		"walltime=1:2:3:4":        `write a time`,
		"walltime=1:":             `write a time`,
		"walltime=1.5:00":         `write a time`,
		"walltime=1.":             `write a time`,
		"walltime=h":              `write a time`,
		"walltime=1h30":           `write a time`,
		"walltime=1e3":            `write a time`,
		"walltime=nan":            `write a time`,
		"walltime=99999d":         `write a time`,
		"nofile=1k":               `nofile: the value "1k" is not valid; write a number`,
		"nofile=-1":               `write a number`,
		"nofile=":                 `write a number`,
	} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %s", text, got, err, want)
		}
	}
}

func TestStrictest(t *testing.T) {
	got := Minimum(Map{Mem: 3, Core: Unlimited}, nil, Map{Mem: 2, Core: 7, VMem: 1}, Map{Mem: 4})
	if !maps.Equal(got, Map{Mem: 2, Core: 7, VMem: 1}) {
		t.Errorf("%v", got)
	}
}

// An excess is described as batch systems do, and for users with units and the origin of the limit.
func TestAnExcessHasUnitsAndAnOrigin(t *testing.T) {
	for _, test := range []struct {
		excess     Excess
		line, text string
	}{
		{Excess{VMem, 47570944, 31457280, "", "--limit"}, "vmem 47570944 exceeded limit 31457280", "vmem: 45.4 MiB used, 30 MiB allowed by --limit"},
		{Excess{WallTime, int64(3600*time.Second) + 1, int64(3600 * time.Second), "", "class long of /etc/remshell/cluster.toml"},
			"walltime 3601 exceeded limit 3600", "walltime: 3600.001 s used, 3600 s allowed by class long of /etc/remshell/cluster.toml"},
		{Excess{HostMem, 2147487744, 2147483648, " on host hpc-5", ""}, "mem 2147487744 exceeded limit 2147483648 on host hpc-5",
			"mem: 2147487744 bytes used on host hpc-5, 2147483648 bytes allowed"},
		{Excess{RankMem, 5 << 40, 1 << 30, " by rank 3 on host hpc-5", "--limit"}, "pmem 5497558138880 exceeded limit 1073741824 by rank 3 on host hpc-5",
			"pmem: 5 TiB used by rank 3 on host hpc-5, 1 GiB allowed by --limit"},
		{Excess{WallTime, int64(2005 * time.Millisecond), int64(2 * time.Second), "", "--limit"}, "walltime 3 exceeded limit 2", "walltime: 2.005 s used, 2 s allowed by --limit"},
		{Excess{Mem, 101, 100, "", "--limit"}, "mem 101 exceeded limit 100", "mem: 101 bytes used, 100 bytes allowed by --limit"},
	} {
		if line, text := test.excess.BatchLine(), test.excess.String(); line != test.line || text != test.text {
			t.Errorf("%q, %q; want %q, %q", line, text, test.line, test.text)
		}
	}
}

// The origin of a limit is that of the smallest value; of equal ones the first.
func TestOriginsAreOfTheStrictest(t *testing.T) {
	all, origins := Map{}, Origins{}
	Tighten(all, origins, Map{Mem: 5, CPUTime: 7}, "--limit")
	Tighten(all, origins, Map{Mem: 4, CPUTime: 7, Core: 0}, "the file")
	if want := (Origins{Mem: "the file", CPUTime: "--limit", Core: "the file"}); !maps.Equal(origins, want) || !maps.Equal(all, Map{Mem: 4, CPUTime: 7, Core: 0}) {
		t.Errorf("%v of %v; want %v", all, origins, want)
	}
}

// Any text gives limits within their ranges, or an error of one line.
func FuzzParse(f *testing.F) {
	f.Add("vmem=30mb,walltime=1:30:00")
	f.Add("nofile=unlimited,cput=1d")
	f.Fuzz(func(t *testing.T, text string) {
		bounds, err := Parse(text)
		if err != nil && strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%q: %v", text, err)
		}
		for name, value := range bounds {
			if !name.IsKnown() || value < 0 || value == 0 && propertiesOf[name].unit == timeUnit {
				t.Errorf("%q: %s=%d", text, name, value)
			}
		}
	})
}
