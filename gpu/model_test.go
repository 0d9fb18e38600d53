package gpu

import (
	"testing"
	"testing/fstest"
)

func TestModel(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	root := fstest.MapFS{
		"proc/driver/nvidia/gpus/0000:07:00.0/information": file("Model: \t\t NVIDIA H100 80GB HBM3\nIRQ: 5\n"),
		"sys/bus/pci/devices/0000:07:00.0/vendor":          file("0x10de\n"),
		"sys/bus/pci/devices/0000:07:00.0/device":          file("0x2330\n"),
		"sys/bus/pci/devices/0000:0a:00.0/vendor":          file("0x1002\n"),
		"sys/bus/pci/devices/0000:0a:00.0/device":          file("0x74a1\n"),
	}
	for _, test := range []struct {
		gpu  GPU
		want string
	}{
		{GPU{Vendor: NVIDIA, Address: "0000:07:00.0"}, "NVIDIA H100 80GB HBM3"},
		{GPU{Vendor: AMD, Address: "0000:0a:00.0"}, "pci-1002-74a1"},
		{GPU{Vendor: AMD, Address: "0000:0a:00.1"}, "pci-1002-74a1"}, // a part of it
		{GPU{Vendor: NVIDIA, Address: "0000:0b:00.0"}, ""},
		{GPU{}, ""},
	} {
		if got := Model(root, test.gpu); got != test.want {
			t.Errorf("%v: %q, want %q", test.gpu, got, test.want)
		}
	}
}
