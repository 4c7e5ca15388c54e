#include "src/api/speech_language.h"

#include <string.h>
#include <strings.h>

/* clang-format off */
static const struct {
	char code[4];
	const char *name;
} languages[] = {
	{"af", "afrikaans"}, {"am", "amharic"}, {"ar", "arabic"}, {"as", "assamese"}, {"az", "azerbaijani"},
	{"ba", "bashkir"}, {"be", "belarusian"}, {"bg", "bulgarian"}, {"bn", "bengali"}, {"bo", "tibetan"},
	{"br", "breton"}, {"bs", "bosnian"}, {"ca", "catalan"}, {"cs", "czech"}, {"cy", "welsh"},
	{"da", "danish"}, {"de", "german"}, {"el", "greek"}, {"en", "english"}, {"es", "spanish"},
	{"et", "estonian"}, {"eu", "basque"}, {"fa", "persian"}, {"fi", "finnish"}, {"fo", "faroese"},
	{"fr", "french"}, {"gl", "galician"}, {"gu", "gujarati"}, {"ha", "hausa"}, {"haw", "hawaiian"},
	{"he", "hebrew"}, {"hi", "hindi"}, {"hr", "croatian"}, {"ht", "haitian creole"}, {"hu", "hungarian"},
	{"hy", "armenian"}, {"id", "indonesian"}, {"is", "icelandic"}, {"it", "italian"}, {"ja", "japanese"},
	{"jw", "javanese"}, {"ka", "georgian"}, {"kk", "kazakh"}, {"km", "khmer"}, {"kn", "kannada"},
	{"ko", "korean"}, {"la", "latin"}, {"lb", "luxembourgish"}, {"ln", "lingala"}, {"lo", "lao"},
	{"lt", "lithuanian"}, {"lv", "latvian"}, {"mg", "malagasy"}, {"mi", "maori"}, {"mk", "macedonian"},
	{"ml", "malayalam"}, {"mn", "mongolian"}, {"mr", "marathi"}, {"ms", "malay"}, {"mt", "maltese"},
	{"my", "myanmar"}, {"ne", "nepali"}, {"nl", "dutch"}, {"nn", "nynorsk"}, {"no", "norwegian"},
	{"oc", "occitan"}, {"pa", "punjabi"}, {"pl", "polish"}, {"ps", "pashto"}, {"pt", "portuguese"},
	{"ro", "romanian"}, {"ru", "russian"}, {"sa", "sanskrit"}, {"sd", "sindhi"}, {"si", "sinhala"},
	{"sk", "slovak"}, {"sl", "slovenian"}, {"sn", "shona"}, {"so", "somali"}, {"sq", "albanian"},
	{"sr", "serbian"}, {"su", "sundanese"}, {"sv", "swedish"}, {"sw", "swahili"}, {"ta", "tamil"},
	{"te", "telugu"}, {"tg", "tajik"}, {"th", "thai"}, {"tk", "turkmen"}, {"tl", "tagalog"},
	{"tr", "turkish"}, {"tt", "tatar"}, {"uk", "ukrainian"}, {"ur", "urdu"}, {"uz", "uzbek"},
	{"vi", "vietnamese"}, {"yi", "yiddish"}, {"yo", "yoruba"}, {"yue", "cantonese"}, {"zh", "chinese"},
};
/* clang-format on */
enum { N_LANGUAGES = sizeof languages / sizeof *languages };

const char *speech_language_name(const char *code)
{
	for (size_t i = 0; i < N_LANGUAGES; i++)
		if (strcmp(languages[i].code, code) == 0)
			return languages[i].name;
	return code;
}

static int is(const char *word, const char *text, size_t n)
{
	return strlen(word) == n && strncasecmp(word, text, n) == 0;
}

const char *speech_language_code(const char *text, size_t n)
{
	for (size_t i = 0; i < N_LANGUAGES; i++)
		if (is(languages[i].code, text, n) || is(languages[i].name, text, n))
			return languages[i].code;
	return NULL;
}
