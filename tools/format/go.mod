// The program that breaks long lines.
module github.com/purser-csi/purser/tools/format

go 1.26
