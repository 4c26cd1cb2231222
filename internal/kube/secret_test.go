package kube

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

const secretMarker = "hunter2-the-marker"

// vault is an API server that has one secret, in one encoding.
func vault(t *testing.T, contentType string, encoder runtime.Encoder) client.Client {
	t.Helper()
	secret := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "create", ResourceVersion: "7", Annotations: map[string]string{
			corev1.LastAppliedConfigAnnotation: `{"stringData":{"password":"` + secretMarker + `"}}`,
		}},
		Data: map[string][]byte{"password": []byte(secretMarker)},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer runtime.Object = secret
		if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
			partial := &metav1.PartialObjectMetadata{ObjectMeta: secret.ObjectMeta}
			partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
			answer = partial
		}
		w.Header().Set("Content-Type", contentType)
		if err := encoder.Encode(answer, w); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	c, err := client.New(&rest.Config{Host: server.URL}, client.Options{Scheme: NewScheme(), Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// R-59, U-48: client-go logs responses at --v=8. The response to a read of a secret has its values,
// and so have its metadata, into which kubectl apply writes them. The client is a real one, since a
// fake one logs nothing.
func TestSecretValuesAreNotLogged(t *testing.T) {
	scheme := NewScheme()
	for contentType, encoder := range map[string]runtime.Encoder{
		"application/json":                    json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{}),
		"application/vnd.kubernetes.protobuf": protobuf.NewSerializer(scheme, scheme),
	} {
		for verbosity := range 11 {
			var said strings.Builder
			log := funcr.New(func(prefix, args string) { said.WriteString(prefix + args + "\n") }, funcr.Options{Verbosity: verbosity})
			ctx := logr.NewContext(t.Context(), log)
			api, ref := vault(t, contentType, encoder), types.NamespacedName{Namespace: "vault", Name: "create"}
			values, version, err := SecretValues(ctx, api, ref)
			if err != nil || values["password"] != secretMarker || version != "7" {
				t.Fatalf("%s: read %q of version %q: %v", contentType, values, version, err)
			}
			if version, err := SecretVersion(ctx, api, ref); err != nil || version != "7" {
				t.Fatalf("%s: version %q: %v", contentType, version, err)
			}
			for _, word := range []string{secretMarker, "hunter2", "Response Body"} {
				if strings.Contains(said.String(), word) {
					t.Errorf("R-59: %q is in the log at --v=%d of an answer in %s", word, verbosity, contentType)
				}
			}
		}
	}
}

// gRPC carries only UTF-8 text. For another value the error names secret and key, but not the
// value, and no call is made.
func TestSecretValueThatIsNoText(t *testing.T) {
	ref := types.NamespacedName{Namespace: "vault", Name: "create"}
	for row, tc := range map[string]struct {
		data map[string][]byte
		key  string // that the error names; empty for none
	}{
		"text":                     {map[string][]byte{"password": []byte("hünter2")}, ""},
		"empty":                    {map[string][]byte{"password": nil}, ""},
		"no text":                  {map[string][]byte{"a": []byte("x"), "key.der": []byte(secretMarker + "\xff\xfe")}, "key.der"},
		"of several the first one": {map[string][]byte{"b": {0x80}, "a": {0x80}, "c": {0x80}}, "a"},
	} {
		api := fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}, Data: tc.data,
		}).Build()
		_, _, err := SecretValues(context.Background(), api, ref)
		unfit, is := errors.AsType[UnfitSecretError](err)
		if is != (tc.key != "") || unfit.Key != tc.key {
			t.Errorf("%s: %v", row, err)
		}
		if is && (strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), `"`+tc.key+`"`)) {
			t.Errorf("%s: %v", row, err)
		}
	}
}
