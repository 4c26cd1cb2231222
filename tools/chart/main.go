package main

import (
	"errors"
	"fmt"
	"os"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	const most = 3
	switch {
	case len(args) > 1 && len(args) <= most && args[0] == "render":
		return printManifests(args[1], args[2:])
	case len(args) > 1 && args[0] == "package":
		return pack(args[1:])
	}
	return errors.New("render CHART [VALUES.yaml], or package -version V -out DIR CHART")
}

func printManifests(path string, files []string) error {
	c, err := loader.Load(path)
	if err != nil {
		return err
	}
	values := common.Values{}
	if len(files) > 0 {
		if values, err = common.ReadValuesFile(files[0]); err != nil {
			return err
		}
	}
	m, err := render(c, values)
	if err != nil {
		return err
	}
	_, err = fmt.Print(m.Objects)
	return err
}
